"""The metric of a task that gives its headline number. lm_eval has no such rule, and shows all metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from regrade.lm_eval.scoring import QuestionScores

PUBLISHED: Mapping[str, str] = {
    "arc_challenge": "acc_norm,none",
    "drop": "f1,none",
    "hellaswag": "acc_norm,none",
    "openbookqa": "acc_norm,none",
}
"""Metrics that model cards give for these tasks, if it is not the first metric."""


_ELSEWHERE = -1
"""Value of a metric for questions of another length, in tasks with a metric for each length, such as RULER's."""


def headlines(
    task: str, scores: Sequence[QuestionScores], means: Sequence[str], higher: Mapping[str, Any]
) -> Mapping[int, str]:
    """Return the headline metric of each document as `metric,filter`; {} if no metric is a share of right answers.

    It is the metric in `PUBLISHED`, else the first mean of values from 0 to 1 that is better if higher, else the metric of
    the document's length, if each document has one.

    Args:
        task: Name of the task.
        scores: Scores of all its documents.
        means: Metrics (`metric,filter`) that are means over documents, in the order of the task.
        higher: True by metric if higher values are better.
    """
    known = [key for key in means if higher.get(key.rpartition(",")[0]) is not False]
    key = PUBLISHED.get(task)
    if key not in known:
        shares = (key for key in known if all(_is_share(s.metrics.get(key)) for s in scores))
        key = next(shares, None)
    if key is not None:
        return dict.fromkeys((score.doc_id for score in scores), key)
    of_length = {score.doc_id: _of_length(score.metrics, higher) for score in scores}
    found = {doc_id: key for doc_id, key in of_length.items() if key is not None}
    return found if len(found) == len(of_length) else {}


def _of_length(metrics: Mapping[str, Any], higher: Mapping[str, Any]) -> str | None:
    """Return the only metric that belongs to a document's length; None if its metrics are of another kind."""
    if not all(name.rpartition(",")[0].isdecimal() for name in metrics):
        return None
    here = [key for key, value in metrics.items() if value != _ELSEWHERE]
    if len(here) != 1 or not _is_share(metrics[here[0]]):
        return None
    return here[0] if higher.get(here[0].rpartition(",")[0]) is not False else None


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1
