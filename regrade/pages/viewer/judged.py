"""Judges and people beside an answer: the answer that a verdict is about, the judges of an answer, and labels that people gave."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from threading import Lock

from cachetools import LRUCache, cachedmethod

from regrade.answers.labelfile import LabelFile, label_files, label_table
from regrade.judging.labels.stored import is_current
from regrade.judging.stored import is_unchanged
from regrade.pages.viewer.filters import AnswerFilters
from regrade.pages.viewer.library import Library, Shelf, StoredSet
from regrade.pages.viewer.links import Visit
from regrade.records.rubrics.facts import JudgeRun
from regrade.settings.errors import DamagedAnswersError

Key = tuple[str, int]
"""Sample id and repeat of an answer."""
SETS_KEPT = 8
"""Sets whose labels are remembered."""


@dataclass(frozen=True, slots=True)
class PersonLabel:
    """A label that a person gave to an answer."""

    rater: str
    about: str
    """Rubric with the field of the verdict, or `right or wrong` without a judge."""
    label: str
    day: str


@dataclass(frozen=True, slots=True)
class Grading:
    """A judge's verdict on an answer, or the answer behind a verdict."""

    title: str
    href: str


def gradings_of(visit: Visit, sample_id: str, repeat: int) -> tuple[Grading, ...]:
    """Return links between an answer and the verdicts on it: to the judged answers, or to the verdict of each judge.

    Verdicts are linked and not shown, because people who see a verdict tend to agree with it.
    """
    plain = AnswerFilters(at=visit.filters.at, format=visit.filters.format)
    found, shelf, links = [], visit.shelf, visit.links
    own = visit.stored.run
    if own is not None:
        place = own.place(repeat)[0]
        for name, judged in (("judged", own.judged), ("baseline", own.baseline)):
            if judged is None:
                continue
            title = f"{name} answer of {judged.model}"
            found += [
                Grading(title, links.answer(other.id, sample_id, place, plain))
                for other in shelf.sets
                if other.id == judged.answer_set_id and is_unchanged(other.answers, judged)
            ]
        return tuple(found)
    for other, run in _judge_runs(shelf, visit.stored):
        first = repeat * run.judge_repeats * run.parts
        if not _has_verdict(visit.library, other, run, sample_id, repeat):
            continue
        judge = other.answers.manifest.specification.model.name
        href = links.answer(other.id, sample_id, first, plain)
        found.append(Grading(f"{judge} by rubric {run.rubric.name}", href))
    return tuple(found)


def _has_verdict(
    library: Library, judge: StoredSet, run: JudgeRun, sample_id: str, repeat: int
) -> bool:
    """Return True if a judge was asked about an answer."""
    if run.judged is None or repeat >= run.judged.repeats:
        return False
    manifest = judge.answers.manifest
    limited = manifest.specification.benchmark.limit is not None or run.baseline is not None
    if manifest.state == "complete" and not limited:
        return True
    try:
        verdict = library.index(judge, None).row_of(
            sample_id, repeat * run.judge_repeats * run.parts
        )
    except DamagedAnswersError:  # the answer can be read without it
        return False
    return verdict is not None


class People:
    """Labels that people gave, remembered for the sets whose answers were shown last."""

    def __init__(self) -> None:
        self._read: LRUCache[tuple[str, str], Mapping[Key, tuple[PersonLabel, ...]]] = LRUCache(
            SETS_KEPT
        )
        self._lock = Lock()

    def of(
        self, shelf: Shelf, stored: StoredSet, sample_id: str, repeat: int
    ) -> tuple[PersonLabel, ...]:
        """Return the labels of an answer, the oldest first; of a verdict those of the judged answer.

        Raises:
            DamagedAnswersError: If a file of labels is damaged.
        """
        labels = self._labels(shelf, stored)
        place = repeat if stored.run is None else stored.run.place(repeat)[0]
        return labels.get((sample_id, place), ())

    @cachedmethod(
        attrgetter("_read"),
        key=lambda _, shelf, stored: (shelf.revision, stored.id),
        lock=attrgetter("_lock"),
    )
    def _labels(self, shelf: Shelf, stored: StoredSet) -> Mapping[Key, tuple[PersonLabel, ...]]:
        found: dict[Key, list[tuple[datetime, PersonLabel]]] = {}
        for source, run in _labelled(shelf, stored):
            for record in label_files(source.answers):
                if not is_current(source.answers, record):
                    continue  # they are about answers that were generated again
                about = _about(run, record)
                for row in label_table(source.answers, record).to_pylist():
                    at = row["labelled_at"]
                    label = PersonLabel(row["rater"], about, row["label"], f"{at:%Y-%m-%d}")
                    found.setdefault((row["sample_id"], row["repeat"]), []).append((at, label))
        return {
            key: tuple(label for _, label in sorted(labels, key=lambda given: given[0]))
            for key, labels in found.items()
        }


def _labelled(shelf: Shelf, stored: StoredSet) -> Iterator[tuple[StoredSet, JudgeRun | None]]:
    """Yield the sets beside which labels of a set's answers are stored."""
    own = stored.run
    yield stored, own
    if own is None:
        yield from _judge_runs(shelf, stored)
        return
    for other in shelf.sets:
        run = other.run
        same = run is not None and (run.judged, run.baseline) == (own.judged, own.baseline)
        if other.id != stored.id and same:
            yield other, run


def _judge_runs(shelf: Shelf, stored: StoredSet) -> Iterator[tuple[StoredSet, JudgeRun]]:
    """Yield the judge runs on exactly these answers."""
    for other in shelf.sets:
        run = other.run
        if run is None or run.judged is None or run.judged.answer_set_id != stored.id:
            continue
        if is_unchanged(stored.answers, run.judged):
            yield other, run


def _about(run: JudgeRun | None, record: LabelFile) -> str:
    if run is None:
        return "right or wrong"
    field = record.field or (run.rubric.fields[0].name if len(run.rubric.fields) > 1 else "")
    return f"{run.rubric.name}, {field}" if field else run.rubric.name
