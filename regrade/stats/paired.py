"""Paired difference between two scorings of the same answers, from arrays."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from regrade.stats.estimates import (
    Z_95,
    FloatArray,
    IntArray,
    check_shapes,
    clustered_standard_error,
)


def noise_reach(changed: float, mean_square: float, n: int) -> float:
    """Return the difference of means that changes without a direction stay within in 95 of 100 cases.

    Each of `n` questions changes by itself with the same probability, up as often as down, so that the standard deviation of the
    mean is sqrt(changed * mean_square / n).

    Args:
        changed: Share of the questions that change.
        mean_square: Mean square of the change of those that do; 1 for right or wrong answers.
        n: Questions, at least 1.
    """
    return Z_95 * sqrt(changed * mean_square / n)


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """Difference of means over pairs of rows, in the unit of the scores."""

    n: int
    """Pairs: rows with a value both before and after."""
    samples: int
    """Questions behind the pairs; fewer than `n` if questions were repeated."""
    before: float | None
    """Mean before, over the pairs. Without pairs, this and all fields below are None."""
    after: float | None
    difference: float | None
    """`after - before`."""
    stderr: float | None
    """Standard error of the difference, clustered by question if questions were repeated; None below 2 questions."""
    low: float | None
    """Lower end of the 95 % interval; see `paired_difference`."""
    high: float | None


def paired_difference(
    before: FloatArray, after: FloatArray, sample_ids: IntArray
) -> MeanDifference:
    """Return the change of the mean, with an interval for paired values.

    Rows without a value on either side are left out. With one answer to each question, the 95 % interval is the
    adjusted Wald interval of Bonett and Price (2012, https://doi.org/10.3102/1076998611411915), which has a
    positive width even if nothing or everything changed. With repeats, it is normal with the standard error clustered
    by sample; if that error is 0, it is the interval of Bonett and Price over the questions.

    Args:
        before: Shape (n_rows,), in [0, 1]; NaN if missing.
        after: Shape (n_rows,), in [0, 1]; NaN if missing.
        sample_ids: Shape (n_rows,), equal for answers to the same question.

    Raises:
        ValueError: If the shapes differ.
    """
    check_shapes(before, after, sample_ids)
    paired = ~(np.isnan(before) | np.isnan(after))
    old, new, samples = before[paired], after[paired], sample_ids[paired]
    n, n_samples = len(old), len(np.unique(samples))
    if n == 0:
        return MeanDifference(0, 0, None, None, None, None, None, None)
    change = new - old
    difference = float(change.mean())
    error = clustered_standard_error(change, samples) if n_samples > 1 else None
    gained, lost = float(change.clip(min=0).mean()), float((-change).clip(min=0).mean())
    low: float | None
    high: float | None
    if n == n_samples or error == 0:
        low, high = bonett_price_interval(gained * n_samples, lost * n_samples, n_samples)
    elif error is None:
        low, high = None, None
    else:
        low = max(-1.0, difference - Z_95 * error)
        high = min(1.0, difference + Z_95 * error)
    return MeanDifference(
        n, n_samples, float(old.mean()), float(new.mean()), difference, error, low, high
    )


def bonett_price_interval(gained: float, lost: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two paired proportions.

    Formula: adjusted Wald, with one pair added to each of the two cells that changed; Bonett and Price 2012
    (https://doi.org/10.3102/1076998611411915).

    Args:
        gained: Pairs that went from 0 to 1; not an integer if scores lie between 0 and 1.
        lost: Pairs that went from 1 to 0.
        n: Number of pairs, at least 1.

    Raises:
        ValueError: If a count is negative, or `gained + lost` exceeds `n`.
    """
    if n < 1 or gained < 0 or lost < 0 or gained + lost > n * (1 + 1e-9):
        raise ValueError(f"{gained} gained and {lost} lost do not fit {n} pairs.")
    up, down = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    half = Z_95 * sqrt((up + down - (up - down) ** 2) / (n + 2))
    return max(-1.0, up - down - half), min(1.0, up - down + half)
