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


def headline(
    task: str, scores: Sequence[QuestionScores], means: Sequence[str], higher: Mapping[str, Any]
) -> str | None:
    """Return the headline metric of a task as `metric,filter`; None if no metric is a share of right answers.

    It is the metric in `PUBLISHED`, else the first mean of values from 0 to 1 that is better if higher.

    Args:
        task: Name of the task.
        scores: Scores of all its documents.
        means: Metrics (`metric,filter`) that are means over documents, in the order of the task.
        higher: True by metric if higher values are better.
    """
    known = [key for key in means if higher.get(key.rpartition(",")[0]) is not False]
    if PUBLISHED.get(task) in known:
        return PUBLISHED[task]
    return next(
        (key for key in known if all(_is_share(score.metrics.get(key)) for score in scores)), None
    )


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1
