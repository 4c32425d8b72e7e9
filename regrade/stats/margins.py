"""Score test of a drop in paired answers against an accepted drop, as pure functions.

With few changed answers, intervals with an estimated variance (Wald) are too narrow. The score test uses the variance
under the tested difference instead: without a loss among n questions it excludes a drop of about 3 / n, as the rule of
three does.
"""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from regrade.stats.estimates import FloatArray, IntArray, clustered_standard_error

MAX_EXACT = 200
"""Largest number of changed answers for which all outcomes are summed (exact p-value)."""


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """Counts of independent questions: gained, lost and all."""

    gained: float
    """Wrong before, right now; not an integer if values lie between 0 and 1, or answers are clustered."""
    lost: float
    """Right before, wrong now."""
    n: float
    df: int | None = None
    """Degrees of freedom of the standard error behind the counts; None if none was estimated."""

    @property
    def difference(self) -> float:
        """Mean change."""
        return (self.gained - self.lost) / self.n


def paired_counts(change: FloatArray, clusters: IntArray) -> PairedCounts:
    """Return the counts of independent questions that carry as much information as these changes.

    With one right or wrong answer to each question, the counts are exact. For repeats, passages and values between 0
    and 1, n is divided by the design effect: the clustered variance over that of independent right and wrong answers
    (Rao and Scott 1992, https://doi.org/10.2307/2532311).

    Args:
        change: Shape (n_rows,), candidate minus baseline, each in [-1, 1], no NaN; not empty.
        clusters: Shape (n_rows,), equal for rows that are not independent.

    Raises:
        ValueError: If the shapes differ, or there are no rows.
    """
    if change.shape != clusters.shape or len(change) == 0:
        raise ValueError(
            f"Expected equal, non-empty shapes, got changes {change.shape} and clusters {clusters.shape}."
        )
    n, n_clusters = len(change), len(np.unique(clusters))
    gained, lost = float(change.clip(min=0).mean()), float((-change).clip(min=0).mean())
    if n == n_clusters and np.isin(change, (-1.0, 0.0, 1.0)).all():
        return PairedCounts(gained * n, lost * n, n)
    if n_clusters < 2:
        return PairedCounts(gained, lost, 1)
    variance = clustered_standard_error(change, clusters) ** 2
    independent = gained + lost - (gained - lost) ** 2
    n_effective = independent / variance if variance > 0 else float(n_clusters)
    return PairedCounts(gained * n_effective, lost * n_effective, n_effective, n_clusters - 1)


def score_z(counts: PairedCounts, difference: float) -> float:
    """Return the score statistic of the hypothesis that two paired proportions differ by `difference`.

    Formula: Tango 1998 (https://doi.org/10.1002/(SICI)1097-0258(19980430)17:8<891::AID-SIM780>3.0.CO;2-B). Positive
    if the observed difference is higher. If `difference` is 0, its square is McNemar's statistic.

    Args:
        counts: Paired answers.
        difference: Between -1 and 1, exclusive.

    Raises:
        ValueError: If `difference` is out of its range.
    """
    if not -1 < difference < 1:
        raise ValueError(f"Expected a difference between -1 and 1, got {difference}.")
    gained, lost = np.array(counts.gained), np.array(counts.lost)
    return float(score_zs(gained, lost, counts.n, difference))


def drop_p(counts: PairedCounts, drop: float) -> float:
    """Return the probability of a difference this low or lower if the true drop were `drop`.

    Up to 200 changed answers, it is summed over all outcomes at the maximum-likelihood share of changed answers,
    because the normal approximation errs by up to half of the level. Above, and for clusters, it is approximate.
    """
    return _p(counts, -drop, above=False)


def no_drop_p(counts: PairedCounts, drop: float) -> float:
    """Return the probability of a difference this high or higher if the true drop were `drop`; see `drop_p`."""
    return _p(counts, -drop, above=True)


def _p(counts: PairedCounts, difference: float, *, above: bool) -> float:
    z = score_z(counts, difference)
    changed = max(counts.gained + counts.lost, counts.n * abs(difference))
    if counts.df is None and changed <= MAX_EXACT:
        return _exact_tail(counts, difference, z, above=above)
    return _tail(z if above else -z, counts.df)


def _exact_tail(counts: PairedCounts, difference: float, z: float, *, above: bool) -> float:
    """Return the probability of a score at least as extreme, at the maximum-likelihood share of changed answers.

    Method: Lloyd 2008 (https://doi.org/10.1111/j.1467-842X.2008.00530.x).
    """
    from scipy.special import gammaln, xlogy

    n = round(counts.n)
    share_lost = float(_share_lost(np.array(counts.gained), np.array(counts.lost), n, difference))
    share_gained = max(0.0, share_lost + difference)
    gained, lost = _likely(n, share_gained)[:, None], _likely(n, share_lost)[None, :]
    kept = n - np.arange(gained.size + lost.size - 1, dtype=np.float64)
    rest = gammaln(np.maximum(kept, 0) + 1) - xlogy(
        np.maximum(kept, 0), max(0.0, 1 - share_gained - share_lost)
    )
    changed = (gained + lost).astype(np.int64)
    log_probability = (
        gammaln(n + 1)
        + (xlogy(gained, share_gained) - gammaln(gained + 1))
        + (xlogy(lost, share_lost) - gammaln(lost + 1))
        - rest[changed]
    )
    scores = score_zs(gained, lost, n, difference)
    extreme = scores >= z - 1e-9 if above else scores <= z + 1e-9
    return min(1.0, float(np.exp(log_probability[extreme & (changed <= n)]).sum()))


def _likely(n: int, share: float) -> FloatArray:
    """Return the counts from 0 up to a bound; the probability of a higher count is negligible."""
    return np.arange(min(n, int(n * share + 8 * sqrt(n * share)) + 12) + 1, dtype=np.float64)


def _share_lost(gained: FloatArray, lost: FloatArray, n: float, difference: float) -> FloatArray:
    """Return the maximum-likelihood share of losses if the true difference is `difference`."""
    b = -gained - lost + (2 * n - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share: FloatArray = (np.sqrt(np.maximum(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    return np.maximum(share, max(0.0, -difference))


def score_zs(gained: FloatArray, lost: FloatArray, n: float, difference: float) -> FloatArray:
    """Return `score_z` for arrays of counts that can be broadcast."""
    shares = 2 * _share_lost(gained, lost, n, difference) + difference * (1 - difference)
    distance = gained - lost - n * difference
    error = np.sqrt(np.maximum(n * shares, 1e-300))
    return np.where(np.abs(distance) < 1e-9, 0.0, distance / error)


def _tail(z: float, df: int | None) -> float:
    if df is None:
        return NormalDist().cdf(-z)
    from scipy.special import stdtr

    return float(stdtr(df, -z))
