"""An answer repository as the viewer reads it: sets, scorings and indexes, read once and remembered."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from cachetools import LRUCache

from regrade.answers.base import Repository
from regrade.answers.content import REVISION
from regrade.answers.figures import figures_of
from regrade.answers.images import StoredImages
from regrade.answers.manifest import Manifest
from regrade.answers.opening import newest_revision
from regrade.answers.result import Result
from regrade.answers.scorefile import ORIGINAL, ScoreFile
from regrade.answers.sets import AnswerSet, begins_an_id, readable_sets
from regrade.comparing.sides import side_at
from regrade.judging.labels.calibrate import calibrate
from regrade.pages.viewer.index import COLUMNS, AnswerIndex, key_of, read_index, with_scores
from regrade.pages.viewer.parameters import AddressError
from regrade.pages.viewer.selecting import Selector
from regrade.pages.viewer.texts import ShardReaders
from regrade.records.rubrics.facts import JudgeRun, answers_per_question, judge_run, model_title
from regrade.scoring.score import is_stale
from regrade.settings.errors import DamagedAnswersError, HubError, SettingsError, UserError
from regrade.stats.metrics import Metrics, average_name

HEAD_SECONDS = 10.0
"""Time after which the Hub is asked for the newest revision again; a folder's is read for each page."""
INDEXED_ROWS = 2_500_000
"""Answers in all remembered indexes together; about 100 bytes each."""
REVISIONS_KEPT = 4
CALIBRATIONS_KEPT = 10_000
IMAGES_KEPT = 32
"""Benchmarks of which the places of images are remembered."""


class NotFoundError(UserError):
    """An address of something that this repository does not have."""


@dataclass(frozen=True, slots=True)
class StoredSet:
    """An answer set with all its scorings, of which there may be none; a `Result` has a single one."""

    answers: AnswerSet
    scorings: tuple[ScoreFile, ...]
    """All that can be read, and whose answers are there: headline first, then by scorer and version."""
    damaged: tuple[DamagedAnswersError, ...]
    stale: frozenset[str]
    """Labels of stale scorings."""
    run: JudgeRun | None = None
    """Facts of the judge run if the answers are verdicts of a judge."""

    @property
    def id(self) -> str:
        """Id of the answer set."""
        return self.answers.manifest.answer_set_id

    @property
    def manifest(self) -> Manifest:
        """Description of the answers."""
        return self.answers.manifest

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.manifest.specification.benchmark.name

    @property
    def metrics(self) -> Metrics | None:
        """Metrics of the headline over all answers; None without any scoring."""
        return None if self.headline is None else self.headline.summary.overall

    @property
    def is_stale(self) -> bool:
        """True if the headline is stale."""
        return self.headline is not None and self.headline.label in self.stale

    @property
    def older(self) -> frozenset[str]:
        """Labels of scorings by a version of a scorer that another version of the same scorer replaced."""
        current: dict[str, str] = {}
        for file in self.scorings:
            if file.original is None:
                current.setdefault(file.scorer, file.code_label)
        return frozenset(
            file.label
            for file in self.scorings
            if current.get(file.scorer, file.code_label) != file.code_label
        )

    def mark(self, file: ScoreFile) -> str:
        """Return which of several versions of its scorer a scoring is; "" for the only one."""
        older = self.older
        if file.label in older:
            return f"older version {file.source_hash}"
        replaced = any(
            other.label in older and other.scorer == file.scorer for other in self.scorings
        )
        return f"current version {file.source_hash}" if replaced else ""

    @property
    def average(self) -> str:
        """Name of the mean, such as `avg@4`."""
        return average_name(answers_per_question(self.manifest.specification))

    @property
    def figures(self) -> dict[str, float | None]:
        """Figures of the answers and the headline, by name."""
        return figures_of(self.manifest, self.headline)

    @property
    def model(self) -> str:
        """Name of the model that gave the answers; of verdicts with the judge."""
        return model_title(self.answers.manifest.specification)

    @property
    def title(self) -> str:
        """Benchmark and model."""
        return f"{self.benchmark} · {self.model}"

    @property
    def headline(self) -> ScoreFile | None:
        """Scoring shown unless another is chosen; None without any."""
        return self.scorings[0] if self.scorings else None

    def scoring(self, label: str | None) -> ScoreFile | None:
        """Return the scoring with a label, or the current one of a scorer; the headline for None.

        Raises:
            AddressError: If the set has no such scoring.
        """
        if label is None:
            return self.headline
        for file in self.scorings:
            if file.label == label:
                return file
        for file in self.scorings:
            if file.scorer == label and file.original is None:
                return file
        labels = ", ".join(file.label for file in self.scorings) or "nothing: it has no scoring"
        raise AddressError("scorer", label, f"one of {labels}")

    def scored_by(self, scorer: str | None) -> Self:
        """Return the set with the current scoring by a scorer alone, or without any; all for None."""
        if scorer is None:
            return self
        files = [file for file in self.scorings if file.scorer == scorer]
        return replace(self, scorings=tuple(files[:1]))

    def same_scoring(self, file: ScoreFile | None) -> ScoreFile | None:
        """Return this set's scoring by the same version of a scorer as another set's; None if it has none."""
        if file is None:
            return None
        for own in self.scorings:
            if file.scorer == ORIGINAL and file.original and own.original:
                if (own.original.tool, own.original.name) == (
                    file.original.tool,
                    file.original.name,
                ):
                    return own
            elif own.label == file.label:
                return own
        return None


@dataclass(frozen=True, slots=True)
class Shelf:
    """All answer sets at one revision."""

    revision: str
    sets: tuple[StoredSet, ...]
    """Newest first."""
    damaged: tuple[DamagedAnswersError, ...]
    read_at: datetime

    def find(self, answer_set_id: str) -> StoredSet:
        """Return an answer set by its id, or the first digits of it.

        Raises:
            NotFoundError: If none fits, or several do.
            DamagedAnswersError: If the only one that fits cannot be read.
        """
        fitting = [stored for stored in self.sets if stored.id.startswith(answer_set_id)]
        for error in () if fitting else self.damaged:
            if any(part.startswith(answer_set_id) for part in error.path.split("/")[-2:]):
                raise error
        exact = [stored for stored in fitting if stored.id == answer_set_id] or fitting
        if len(exact) != 1:
            found = ", ".join(stored.id for stored in fitting[:5]) or "none"
            raise NotFoundError(
                f"'{answer_set_id}' should be the id of one answer set; here it matches {found}."
            )
        return exact[0]


class Library:
    """The repository that a viewer shows. Safe for threads: one at a time reads sets and indexes."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.readers = ShardReaders()
        self.selector = Selector(self.readers)
        self._lock = threading.RLock()
        self._head: tuple[str, float] | None = None
        self._shelves: LRUCache[str, Shelf] = LRUCache(REVISIONS_KEPT)
        self._indexes: dict[tuple[str, ...], AnswerIndex] = {}
        self._images: LRUCache[tuple[str, str, str], StoredImages] = LRUCache(IMAGES_KEPT)
        self._calibrations: LRUCache[tuple[str, str, str], str] = LRUCache(CALIBRATIONS_KEPT)

    def shelf(self, at: str | None = None) -> Shelf:
        """Return the answer sets at a revision, by default the newest.

        Raises:
            RepositoryError: If the revision does not exist, or the repository is empty.
            HubError: If the Hub does not answer and nothing was read before.
        """
        with self._lock:
            revision = self._newest() if at is None else self._resolved(at)
            if revision not in self._shelves:
                self._shelves[revision] = _read_shelf(self.repository, revision)
            return self._shelves[revision]

    def named(self, name: str, shelf: Shelf) -> list[StoredSet]:
        """Return the answer sets of a shelf that an id, a model or an alias stands for.

        Raises:
            RepositoryError: If there are none.
            DamagedAnswersError: If the only one that fits cannot be read.
        """
        if begins_an_id(name, (stored.id for stored in shelf.sets)):
            return [shelf.find(name)]
        side = side_at(self.repository, shelf.revision, name)
        return [shelf.find(answers.manifest.answer_set_id) for answers in side.sets.values()]

    def index(self, stored: StoredSet, scoring: ScoreFile | None) -> AnswerIndex:
        """Return the index of an answer set with one of its scorings.

        Raises:
            DamagedAnswersError: If the answers or the scores are damaged.
        """
        plain, key = key_of(stored.answers, None), key_of(stored.answers, scoring)
        with self._lock:
            for wanted in (plain, key):
                if wanted in self._indexes:
                    self._indexes[wanted] = self._indexes.pop(wanted)  # the last to be dropped
                elif wanted == plain:
                    rows = self.readers.batches(stored.answers, COLUMNS)
                    self._indexes[plain] = read_index(stored.answers, rows)
                elif scoring is not None:
                    known, answers = self._indexes[plain], stored.answers
                    table = answers.score_table(scoring)
                    self._indexes[key] = with_scores(known, answers, scoring, table)
            found = self._indexes[key]
            kept = self._indexes
            while len(kept) > 2 and sum(index.rows for index in kept.values()) > INDEXED_ROWS:
                kept.pop(next(iter(kept)))
            return found

    def calibration(self, stored: StoredSet, scoring: ScoreFile | None) -> str:
        """Return what people's labels say about verdicts of a judge: `uncalibrated` without any; "" for other answers."""
        if scoring is None or stored.run is None:
            return ""
        key = stored.answers.revision, stored.id, scoring.label
        with self._lock:
            if key not in self._calibrations:
                found = calibrate(Result(stored.answers, scoring))
                self._calibrations[key] = "" if found is None else found.text
            return self._calibrations[key]

    def images(self, answers: AnswerSet) -> StoredImages:
        """Return the images of a set's benchmark."""
        images = answers.images
        key = answers.repository.uri, answers.revision, images.folder
        with self._lock:
            return self._images.setdefault(key, images)

    def _newest(self) -> str:
        now = time.monotonic()
        far = self.repository.uri.startswith("hf://")
        if far and self._head is not None and now - self._head[1] < HEAD_SECONDS:
            return self._head[0]
        try:
            head = newest_revision(self.repository)
        except HubError:
            if self._head is None:
                raise
            head = self._head[0]  # what was read before stays readable; the page names its revision
        self._head = head, now
        return head

    def _resolved(self, at: str) -> str:
        return at if REVISION.fullmatch(at) and at in self._shelves else self.repository.resolve(at)


def _read_shelf(repository: Repository, revision: str) -> Shelf:
    found, damaged = readable_sets(repository, revision)
    sets = []
    for answers in reversed(found):
        try:
            sets.append(_stored_set(answers))
        except SettingsError as error:  # a judge run with facts of a newer version
            damaged.append(DamagedAnswersError(answers.folder, str(error)))
    return Shelf(revision, tuple(sets), tuple(damaged), datetime.now(UTC))


def _stored_set(answers: AnswerSet) -> StoredSet:
    files, damaged = answers.scores_and_damage()
    stale = frozenset(file.label for file in files if is_stale(file, answers))
    ranked = tuple(_by_rank(files, answers.manifest.scorers, stale))
    run = judge_run(answers.manifest.specification)
    return StoredSet(answers, ranked, tuple(damaged), stale, run)


def _by_rank(
    files: Sequence[ScoreFile], scorers: Sequence[str], stale: frozenset[str]
) -> list[ScoreFile]:
    """Return scorings: fresh before stale, then those that give the headline, then by the order of the scorers."""

    def rank(file: ScoreFile) -> tuple[object, ...]:
        place = scorers.index(file.scorer) if file.scorer in scorers else len(scorers)
        return (
            file.label in stale,
            not file.is_headline(scorers),
            place,
            -file.version,
            -file.scored_at.timestamp(),
        )

    return sorted(files, key=rank)
