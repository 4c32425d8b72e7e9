"""Significance tests of paired answers, and corrections for multiple tests: pure functions."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regrade.stats.estimates import FloatArray

Alternative = Literal["two-sided", "less"]
"""`less`: the change is below 0, a drop."""
N_RESAMPLES = 19_999
"""Random sign flips if the distribution is not computed in full."""
MAX_EXACT = 20_000
"""Largest sum of changes for which the distribution of all sign flips is computed in full; no limit if all have one size."""


def sign_flip_p(sums: FloatArray, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of the paired permutation test, which flips the sign of each cluster's change.

    Exact for few clusters, and for whole numbers such as right and wrong answers, or multiples of the smallest change, such as
    0.5 and 1; otherwise over 19,999 random sign flips with a fixed seed. With one right or wrong answer to each question, it is the exact McNemar test.

    Args:
        sums: Shape (n_clusters,), sum of the changes in each cluster; no NaN.
        alternative: `less` tests for a drop only.
    """
    changed = sums[np.abs(sums) > 1e-9]  # 0.1 + 0.2 - 0.3 is not 0
    if len(changed) == 0:
        return 1.0
    for unit in (1.0, float(np.abs(changed).min())):
        counts = np.rint(changed / unit).astype(np.int64)
        sizes = np.abs(counts)
        is_short = sizes.sum() <= MAX_EXACT or bool((sizes == sizes[0]).all())
        if is_short and np.allclose(changed, unit * counts, atol=1e-9):
            return _exact_p(int(counts.sum()), sizes, alternative)
    from scipy.stats import permutation_test

    result = permutation_test(
        (changed,),
        np.sum,
        permutation_type="samples",
        alternative=alternative,
        n_resamples=N_RESAMPLES,
        batch=max(1, 2_000_000 // len(changed)),
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def _exact_p(observed: int, sizes: NDArray[np.int64], alternative: Alternative) -> float:
    from scipy.special import gammaln

    distribution: FloatArray = np.ones(1)  # of the sum of the sizes whose sign is +
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        k = np.arange(count + 1)
        ways = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
        spread = np.zeros(int(size * count) + 1)
        spread[:: int(size)] = np.exp(ways - count * np.log(2))
        distribution = np.asarray(np.convolve(distribution, spread), np.float64)
    plus = (observed + int(sizes.sum())) // 2
    below = float(distribution[: plus + 1].sum())
    if alternative == "less":
        return min(1.0, below)
    return min(1.0, 2 * min(below, float(distribution[plus:].sum())))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the family-wise error rate: the probability of any false claim.

    Formula: step-down Bonferroni, Holm 1979 (https://www.jstor.org/stable/4615733).
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the false discovery rate: the mean share of false claims among all claims.

    Formula: Benjamini and Hochberg 1995 (https://doi.org/10.1111/j.2517-6161.1995.tb02031.x), for independent tests.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")[::-1]
    factors = len(p) / (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(p[order] * factors))
    return [float(value) for value in adjusted]
