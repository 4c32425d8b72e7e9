"""Percentile bootstrap of statistics over independent groups of rows: pure functions of arrays."""

from collections.abc import Callable

import numpy as np

from regrade.settings import StrictModel
from regrade.stats.estimates import FloatArray, IntArray

RESAMPLES = 2_000
_DEFINED = 0.95
"""Least share of resamples in which a statistic must be defined for an interval."""
_BLOCK = 20_000_000
"""Most weights computed at once."""


class Estimate(StrictModel):
    """A statistic with its 95 % interval."""

    value: float | None
    """None if it is not defined, such as kappa if only one label occurs."""
    low: float | None = None
    """Lower end of the interval; None if the value is not defined, or resampling cannot show its error: with fewer than two
    groups, or if all resamples give the same value."""
    high: float | None = None


def bootstrap(statistic: Callable[[FloatArray], FloatArray], clusters: IntArray) -> Estimate:
    """Return a statistic with its percentile interval over resampled groups (Efron 1979, https://doi.org/10.1214/aos/1176344552).

    It is the same each time, so that a figure does not change when it is shown again.

    Args:
        statistic: Takes weights of shape (n_resamples, n_rows) and returns shape (n_resamples,); NaN if not defined.
        clusters: Shape (n_rows,), equal for rows that are not independent.
    """
    [value] = statistic(np.ones((1, len(clusters))))
    if not np.isfinite(value):
        return Estimate(value=None)
    codes = np.unique(clusters, return_inverse=True)[1]
    n_clusters = int(codes.max()) + 1
    if n_clusters < 2:
        return Estimate(value=float(value))
    rng = np.random.default_rng(0)
    block = max(1, min(RESAMPLES, _BLOCK // len(codes)))
    drawn: list[FloatArray] = []
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        weights = rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), size)
        drawn.append(statistic(weights[:, codes].astype(np.float64)))
    values = np.concatenate(drawn)
    defined = values[np.isfinite(values)]
    if len(defined) < _DEFINED * RESAMPLES or np.ptp(defined) == 0:
        return Estimate(value=float(value))
    low, high = np.quantile(defined, (0.025, 0.975))
    return Estimate(value=float(value), low=float(low), high=float(high))
