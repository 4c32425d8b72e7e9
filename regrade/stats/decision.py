"""Tests of a change of paired answers, which decide between regression and pass, and their interval.

The interval holds exactly the differences that the tests do not exclude, so it never contradicts a verdict.
Reasons for each test and their simulated error rates: docs/compare.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from regrade.stats.corrected import Corrected
from regrade.stats.estimates import FloatArray, IntArray, clustered_standard_error
from regrade.stats.margins import PairedCounts, drop_p
from regrade.stats.significance import sign_flip_p
from regrade.stats.unseen import unseen_loss_p

_STEPS = 24
"""Bisection steps; the error, 2 / 2**24, is below the shown digits."""


@dataclass(frozen=True)
class PairedChanges:
    """Changes of paired answers, as the tests need them."""

    difference: float
    """Mean change over all questions."""
    sums: FloatArray
    """Shape (n_clusters,): sum of the changes in each cluster, in whole numbers if possible."""
    whole: float
    """Sum of a cluster of mean size in which every answer is lost, as a positive number."""
    n: int
    """Questions, independent or not."""
    counts: PairedCounts | None
    """Counts, if each question is independent and has one right or wrong answer; else None."""
    stderr: float | None
    """Standard error of `difference`, clustered; None below 2 clusters."""
    corrected: Corrected | None = None
    """The difference corrected by people's labels; if it is set, it alone decides, by Student's t."""

    @cached_property
    def exact_p(self) -> float:
        """P-value of the exact test of no drop at all: `sign_flip_p`."""
        return sign_flip_p(self.sums, "less")

    @cached_property
    def mirrored(self) -> "PairedChanges":
        """The changes with gains and losses exchanged."""
        counts = self.counts and replace(
            self.counts, gained=self.counts.lost, lost=self.counts.gained
        )
        corrected = self.corrected and self.corrected.negated()
        return replace(
            self, difference=-self.difference, sums=-self.sums, counts=counts, corrected=corrected
        )

    def by_labels(self, corrected: Corrected) -> "PairedChanges":
        """Return the changes with a difference that people's labels correct, between -1 and 1 as the changes."""
        error = corrected.stderr
        return replace(
            self, difference=corrected.value, counts=None, stderr=error, corrected=corrected
        )


def paired_changes(change: FloatArray, clusters: IntArray, scale: int = 1) -> PairedChanges:
    """Return the changes as input of the tests.

    Args:
        change: Shape (n_questions,), candidate minus baseline, each in [-1, 1], no NaN; not empty.
        clusters: Shape (n_questions,), equal for questions that are not independent.
        scale: Factor that makes the changes whole numbers, such as the answers per question.

    Raises:
        ValueError: If the shapes differ, or there are no questions.
    """
    if change.shape != clusters.shape or len(change) == 0:
        raise ValueError(
            f"Expected equal, non-empty shapes, got changes {change.shape} and clusters {clusters.shape}."
        )
    n, codes = len(change), np.unique(clusters, return_inverse=True)[1]
    sums = np.bincount(codes, weights=change * scale).astype(np.float64)
    counts = None
    if n == len(sums) and np.isin(change, (-1.0, 0.0, 1.0)).all():
        counts = PairedCounts(int((change > 0).sum()), int((change < 0).sum()), n)
    error = clustered_standard_error(change, clusters) if len(sums) > 1 else None
    return PairedChanges(float(change.mean()), sums, scale * n / len(sums), n, counts, error)


def changes_of_counts(gained: int, lost: int, n: int) -> PairedChanges:
    """Return the changes of n questions with one right or wrong answer each."""
    sums = np.repeat([1.0, -1.0, 0.0], [gained, lost, n - gained - lost])
    counts = PairedCounts(gained, lost, n)
    variance = (gained + lost) / n - counts.difference**2
    error = sqrt(max(variance, 0.0) / (n - 1)) if n > 1 else None
    return PairedChanges(counts.difference, sums, 1.0, n, counts, error)


def regression_p(changes: PairedChanges, drop: float) -> float:
    """Return the probability of a difference this bad if the true drop were `drop`.

    With one right or wrong answer to each question the score test, else Student's t over the clusters. If `drop` is
    not negative, the p-value is never below that of the exact test of no drop at all, because a drop beyond `drop` is
    also a drop. With single answers and a `drop` of 0, it is the exact McNemar test. A corrected difference is tested by
    Student's t with its own error.
    """
    if changes.corrected is not None:
        return changes.corrected.below_p(-drop)
    if drop == 0 and changes.counts is not None:
        return changes.exact_p
    p = drop_p(changes.counts, drop) if changes.counts else _t_test_p(changes, drop)
    if p > 0.5 or drop < 0:
        return p
    return max(p, changes.exact_p)


def pass_p(changes: PairedChanges, drop: float) -> float:
    """Return the probability of a difference this good if the true drop were `drop`.

    As `regression_p`, with gains and losses exchanged: if `drop` is not positive, the exact test of no gain at all has
    to reject as well. For repeats, passages and values between 0 and 1 the p-value is never below `unseen_loss_p`.
    """
    p = regression_p(changes.mirrored, -drop)
    decided = changes.counts is not None or changes.corrected is not None
    if p > 0.5 or decided or changes.stderr is None:
        return p
    return max(p, unseen_loss_p(changes.sums, changes.whole, drop, changes.stderr))


def difference_p(changes: PairedChanges) -> float:
    """Return the two-sided p-value of no difference at all: twice the smaller of both sides' `regression_p`."""
    sides = (regression_p(side, 0.0) for side in (changes, changes.mirrored))
    return min(1.0, 2 * min(sides))


def lower_end(changes: PairedChanges, alpha: float, drops: Sequence[float] = ()) -> float:
    """Return the lower end of the differences that `pass_p` does not exclude.

    Args:
        changes: Paired answers.
        alpha: One-sided level, below 0.5.
        drops: Tested drops. The end is above `-drop` exactly if `pass_p` excludes that drop.
    """
    return _end(changes, lambda value: pass_p(changes, -value), alpha, drops, -1.0)


def upper_end(changes: PairedChanges, alpha: float, drops: Sequence[float] = ()) -> float:
    """Return the upper end of the differences that `regression_p` does not exclude; see `lower_end`."""
    return _end(changes, lambda value: regression_p(changes, -value), alpha, drops, 1.0)


def difference_interval(changes: PairedChanges, level: float) -> tuple[float, float]:
    """Return the two-sided interval that excludes 0 exactly if `difference_p` is below 1 - `level`."""
    alpha = (1 - level) / 2
    return -upper_end(changes.mirrored, alpha), upper_end(changes, alpha)


def _end(
    changes: PairedChanges,
    p_value: Callable[[float], float],
    alpha: float,
    drops: Sequence[float],
    far: float,
) -> float:
    """Return the end of the interval between the observed difference and `far`, by bisection.

    P-values of discrete outcomes are not monotone to the last digit. Testing the differences of interest first, and
    searching on the side that their tests leave, makes the end agree with these tests.
    """
    near = changes.difference
    tested = {0.0, *(-drop for drop in drops)}
    between = [value for value in tested if min(near, far) < value < max(near, far)]
    for value in sorted(between, key=lambda value: abs(value - near)):
        if p_value(value) < alpha:
            far = value
            break
        near = value
    for _ in range(_STEPS):
        middle = (near + far) / 2
        inside = -1 < middle < 1 and p_value(middle) >= alpha
        near, far = (middle, far) if inside else (near, middle)
    return near


def _t_test_p(changes: PairedChanges, drop: float) -> float:
    """Return the p-value of a drop beyond `drop` by Student's t over the clusters; 1.0 below 2 clusters."""
    distance = changes.difference + drop
    if changes.stderr is None:
        return 1.0
    if changes.stderr == 0:  # all clusters changed alike
        return 0.0 if distance < 0 else 1.0
    from scipy.special import stdtr

    return float(stdtr(len(changes.sums) - 1, distance / changes.stderr))
