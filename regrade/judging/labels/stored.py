"""Stored labels of an answer set: the latest label of each rater on each answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from regrade.answers.labelfile import (
    FOLDER,
    DrawnSample,
    LabelFile,
    label_files,
    label_table,
    labelled_folders,
)
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.sampling import Key
from regrade.judging.stored import answer_set_at, digest, judge_runs
from regrade.records.rubrics.facts import JudgedSet, JudgeRun, judge_run
from regrade.stats.estimates import FloatArray
from regrade.stats.scale import Scale


@dataclass(frozen=True, slots=True)
class Label:
    """A person's label of an answer."""

    key: Key
    label: str
    value: float
    rater: str
    labelled_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """Time at which it was read, unless it is stored: a sheet does not say when people labelled."""


@dataclass(frozen=True, slots=True)
class StoredLabels:
    """All labels of an answer set."""

    latest: dict[tuple[Key, str], Label]
    """Latest label by answer and rater."""
    samples: tuple[DrawnSample, ...]
    """Random samples that people labelled."""
    outdated: int = 0
    """Number of labels that do not count, because the answers were generated again since."""

    @property
    def raters(self) -> list[str]:
        """Names of the raters, sorted."""
        return sorted({rater for _, rater in self.latest})

    @property
    def keys(self) -> set[Key]:
        """Keys of the labelled answers."""
        return {key for key, _ in self.latest}

    def values(self, keys: Sequence[Key], rater: str | None = None) -> FloatArray:
        """Return the value of each answer, shape (n_keys,), NaN if it is not labelled.

        Args:
            keys: Answers.
            rater: Labels of this person. None: the mean over all people.
        """
        given: dict[Key, list[float]] = {}
        for (key, name), label in self.latest.items():
            if rater in (None, name):
                given.setdefault(key, []).append(label.value)
        return np.array([float(np.mean(given[key])) if key in given else np.nan for key in keys])


def stored_labels(answers: AnswerSet, scale: Scale, field: str | None = None) -> StoredLabels:
    """Return the labels of an answer set; later ones replace earlier ones by the same person.

    Labels are about the judged answers, whoever judged them: those stored beside another judge run on the same answers by the
    same rubric and criteria count as well, also if answers were added between the two runs.

    Args:
        answers: The answer set.
        scale: Scale of the labels; those for scorings of another scale do not count.
        field: Field of the verdict that the labels are about. None: the first.

    Raises:
        DamagedAnswersError: If a file of labels is damaged.
    """
    files = [
        (source, record)
        for source in _sources(answers)
        for record in label_files(source)
        if record.scale == scale and record.field == field
    ]
    latest: dict[tuple[Key, str], Label] = {}
    samples: list[DrawnSample] = []
    outdated = 0
    for source, record in sorted(files, key=lambda found: found[1].imported_at):
        if not is_current(source, record):
            outdated += record.rows
            continue
        if record.sample is not None:
            samples.append(record.sample)
        for row in label_table(source, record).to_pylist():
            key = (row["sample_id"], row["repeat"])
            label = Label(key, row["label"], row["value"], row["rater"], row["labelled_at"])
            known = latest.get((key, label.rater))
            if known is None or known.labelled_at <= label.labelled_at:
                latest[key, label.rater] = label
    return StoredLabels(latest, tuple(samples), outdated)


def is_current(answers: AnswerSet, record: LabelFile) -> bool:
    """Return True if the set still has the labelled answers.

    The answers behind a judge run are part of its identity. Other sets must still have all labelled shards.
    """
    if judge_run(answers.manifest.specification) is not None:
        return True
    return {*answers.hashes}.issuperset(record.answers)


def _sources(answers: AnswerSet) -> Iterator[AnswerSet]:
    """Yield the answer set, and other judge runs with labels of the same answers by the same rubric and criteria."""
    yield answers
    if judge_run(answers.manifest.specification) is not None:
        yield from (other for other, _, same in labelled_judge_runs(answers) if same)


def _of_same_answers(answers: AnswerSet, run: JudgeRun, other: JudgeRun) -> bool:
    """Return True if two judge runs grade the same answers by the same rubric and criteria, or one more of them than the other.

    Criteria of more questions have another hash, so that they cannot be known to be the same ones.
    """
    alike = other.rubric.sha256 == run.rubric.sha256 and other.criteria == run.criteria
    if not alike or None in (run.judged, other.judged):
        return False
    pairs = ((run.judged, other.judged), (run.baseline, other.baseline))
    return all(_grew(answers, one, two) for one, two in pairs)


def _grew(answers: AnswerSet, one: JudgedSet | None, other: JudgedSet | None) -> bool:
    """Return True if both are the same answers, or one are those that the other were before more were added."""
    if one == other or one is None or other is None:
        return one == other
    if one.model_copy(update={"shards": other.shards}) != other:
        return False
    judged = answer_set_at(answers.repository, answers.revision, one.answer_set_id)
    shards = () if judged is None else judged.hashes
    states = {digest(shards[:count]) for count in range(1, len(shards) + 1)}
    return {one.shards, other.shards} <= states


def labelled_judge_runs(answers: AnswerSet) -> Iterator[tuple[AnswerSet, JudgeRun, bool]]:
    """Yield the other judge runs of a repository with labels, each with whether they are labels of these answers."""
    repository, revision = answers.repository, answers.revision
    folders = labelled_folders(repository.files(revision, FOLDER))
    folders.discard(answers.manifest.specification.folder)
    if not folders:
        return
    ours = judge_run(answers.manifest.specification)
    for other, run in judge_runs(repository, revision, folders.__contains__):
        yield other, run, ours is not None and _of_same_answers(answers, ours, run)
