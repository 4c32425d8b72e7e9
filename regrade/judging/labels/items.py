"""Verdicts of a scoring on answers, for the comparison with people's labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from regrade.answers.result import Result
from regrade.answers.rows import row_keys
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.sampling import Key
from regrade.judging.labels.scheme import Scheme, scheme_of
from regrade.judging.stored import NOTHING_TO_JUDGE
from regrade.records.rubrics.facts import JudgeRun, judge_run
from regrade.settings.turn_ids import question_ids
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.metrics import score_values
from regrade.stats.named import row_metrics


@dataclass(frozen=True)
class Verdicts:
    """Verdicts of a scoring, one for each answer with a verdict; several verdicts of a judge on an answer are averaged.

    Answers on which a judge gave no verdict are part of the question, too: its figure is about all answers.
    """

    answers: AnswerSet
    run: JudgeRun | None
    """Facts of the judge run; None if no judge graded these answers."""
    scheme: Scheme
    scoring: str
    """Label of the scoring."""
    field: str | None
    """Field of the verdict; None for the first, which gives the headline number."""
    keys: Sequence[Key]
    """Sample id and repeat of each answer; for a judge run, of the judged answer."""
    value: FloatArray
    """Shape (n_answers,), no NaN."""
    without: Sequence[Key] = ()
    """Answers that a judge should grade, and has no readable verdict on: refused, failed, cut off or unparsed."""

    @property
    def judged(self) -> Sequence[Key]:
        """All answers: those with a verdict, then those without."""
        return [*self.keys, *self.without]

    @cached_property
    def cluster(self) -> IntArray:
        """Shape (n_answers,): number of the question."""
        return clusters_of(self.keys)


def clusters_of(keys: Sequence[Key]) -> IntArray:
    """Return the number of the question of each answer; turns of a conversation have the same."""
    ids = np.array(question_ids(sample_id for sample_id, _ in keys), dtype=object)
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def verdicts_of(scored: Result, field: str | None = None) -> Verdicts:
    """Return the verdicts of a scoring.

    Args:
        scored: The scoring; the answers of a judge run are the judge's replies.
        field: One of the `further_fields` of the verdicts. None: the first.
    """
    answers, file = scored.answers, scored.file
    run = judge_run(answers.manifest.specification)
    given = values_by_answer(run, scored.scores, field)
    means = {key: float(np.mean(values)) for key, values in given.items() if values}
    without: Sequence[Key] = ()
    if run is not None and len(means) < len(given):
        nothing = nothing_to_judge(answers, run)
        without = [key for key in given if key not in means and key not in nothing]
    value, scheme = np.array([*means.values()], np.float64), scheme_of(run, file.scale, field)
    return Verdicts(answers, run, scheme, file.label, field, [*means], value, without)


def values_by_answer(
    run: JudgeRun | None, table: pa.Table, field: str | None = None
) -> dict[Key, list[float]]:
    """Return the values of the verdicts on each answer, of all repeats and both orders of a pair; [] without any.

    Args:
        run: Facts of the judge run; None for answers that no judge graded.
        table: Scores, `SCORING_SCHEMA`.
        field: As in `verdicts_of`.
    """
    found: dict[Key, list[float]] = {}
    for key, value in zip(row_keys(table), _values(table, field), strict=True):
        given = found.setdefault(judged_key(run, key), [])
        if np.isfinite(value):
            given.append(value)
    return found


def nothing_to_judge(answers: AnswerSet, run: JudgeRun) -> set[Key]:
    """Return the judged answers of a judge run that were no answers, such as failed requests, so that no judge was asked."""
    return {
        judged_key(run, (row["sample_id"], row["repeat"]))
        for batch in answers.batches(("sample_id", "repeat", "error"))
        for row in batch.to_pylist()
        if (row["error"] or "").startswith(NOTHING_TO_JUDGE)
    }


def _values(table: pa.Table, field: str | None) -> list[float]:
    """Return the value of each row; for a further field, the scorer's named value."""
    values: list[float] = score_values(table).tolist()
    if field is None:
        return values
    named = [row_metrics(text) for text in table["metrics"].to_pylist()]
    return [metrics.get(field, np.nan) for metrics in named]


def judged_key(run: JudgeRun | None, key: Key) -> Key:
    """Return the key of the judged answer of a row, or the row's own key if it is not of a judge run."""
    return key if run is None else (key[0], run.place(key[1])[0])
