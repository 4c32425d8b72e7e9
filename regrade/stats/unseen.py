"""Account for losses that the sample cannot show: a few questions lost entirely, but not in the sample.

With many repeats of few questions, the standard error is small, yet 30 questions say nothing about a loss that hits
one question in 50. Tests with a standard error estimated from the sample pass such a loss too often.
"""

from math import ceil, log2

import numpy as np

from regrade.stats.estimates import FloatArray, IntArray

MAX_GRID = 2**18
"""Longest distribution of a sum; with more, changes are rounded to coarser steps."""
_SHIFTS = (0.0, 0.25, 0.5)
"""Means of the clusters that are not lost, in standard errors above the observed mean. More would cost power without need:
with 0.5, simulated error rates are at most 5.3 % at a level of 5 %."""
_STEPS = 50
"""Bisection steps for the tilt of the distribution."""


def unseen_loss_p(sums: FloatArray, whole: float, drop: float, stderr: float) -> float:
    """Return the probability of a mean change this high or higher if the true drop were `drop`.

    The changes of the clusters follow the distribution that is most likely if the mean is `-drop`: the observed
    changes and a wholly lost cluster, observed or not, with weights by empirical likelihood (Owen 1988,
    https://doi.org/10.1093/biomet/75.2.237; with extended support as in audit sampling, Chen, Chen and Rao 2003,
    https://doi.org/10.2307/3315814). The distribution of the sum is exact up to rounding. If no cluster changed, this
    is (1 - drop) ** n_clusters, the rule of three.

    The mean of the clusters that are not lost is unknown too, so that the result is the largest over a range of it
    (Berger and Boos 1994, https://doi.org/10.1080/01621459.1994.10476836). Otherwise noise smaller than one lost
    cluster would decide between equal numbers of them, and up to 8 % would pass at a level of 5 %.

    Args:
        sums: Shape (n_clusters,), sum of the changes in each cluster; not empty.
        whole: Sum of a cluster of mean size in which every answer is lost, as a positive number.
        drop: Between -1 and 1, exclusive.
        stderr: Standard error of the mean change.
    """
    n = len(sums)
    steps = min(whole, 200.0) if np.allclose(sums, np.rint(sums), atol=1e-9) else 200.0
    steps = max(1.0, min(steps, MAX_GRID / (2 * n)))
    exact = sums * (steps / whole)
    rounded = np.rint(exact).astype(np.int64)
    mean = float(rounded.mean() - exact.mean()) - drop * steps  # rounding moves the hypothesis too
    shifts = {share * stderr * steps for share in _SHIFTS}
    return max(_tail(rounded, -ceil(steps), mean, shift) for shift in shifts)


def _tail(changes: IntArray, lost: int, mean: float, shift: float) -> float:
    """Return the probability of a sum this high if the mean is `mean`, of which `shift` is common to all clusters.

    Args:
        changes: Shape (n_clusters,).
        lost: Change of a wholly lost cluster.
        mean: Mean of the hypothesis.
        shift: Difference between the clusters that are not lost and the observed ones, which the lost clusters offset.
    """
    n, observed = len(changes), int(changes.sum())
    if observed <= n * mean + 1e-9:
        return 1.0
    values, counts = np.unique(changes, return_counts=True)
    if values[0] > lost:
        values, counts = np.r_[lost, values], np.r_[0, counts]
    lowest = int(values[0])
    if mean - shift <= lowest:
        return 0.0
    weights = _most_likely(values.astype(np.float64) - (mean - shift), counts)
    probability = _sum_distribution(values - lowest, weights, n)
    first = max(0, ceil(observed - n * shift - 1e-6) - n * lowest)
    return min(1.0, max(0.0, float(probability[first:].sum())))


def _most_likely(distances: FloatArray, counts: IntArray) -> FloatArray:
    """Return the weights of the most likely distribution with mean 0.

    Args:
        distances: Ascending; the first is negative, the mean weighted by `counts` is positive.
        counts: Number of observations of each distance; the first may be 0.
    """
    n = counts.sum()
    low, high = 0.0, -1 / float(distances[0])
    for _ in range(_STEPS):
        tilt = (low + high) / 2
        scaled = 1 + tilt * distances
        low, high = (tilt, high) if (counts * distances / scaled).sum() > 0 else (low, tilt)
    weights: FloatArray = counts / (n * (1 + low * distances))
    weights[0] += max(0.0, 1 - weights.sum())
    weights /= weights.sum()
    return weights


def _sum_distribution(offsets: IntArray, weights: FloatArray, n: int) -> FloatArray:
    """Return the distribution of the sum of n independent draws, by the fast Fourier transform."""
    longest = int(offsets.max()) * n + 1
    draw = np.zeros(2 ** ceil(log2(max(longest, 2))))
    draw[offsets] = weights
    distribution: FloatArray = np.fft.irfft(np.fft.rfft(draw) ** n, len(draw))
    return distribution[:longest]
