"""Score test of a drop in paired answers, one right or wrong answer to each question, against an accepted drop.

With few changed answers, intervals with an estimated variance (Wald) are too narrow. The score test uses the variance
under the tested difference instead: without a loss among n questions it excludes a drop of about 3 / n, as the rule of
three does.
"""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from regrade.stats.estimates import FloatArray

MAX_EXACT = 200
"""Largest number of changed answers for which all outcomes are summed (exact p-value)."""


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """Counts of independent questions: gained, lost and all."""

    gained: int
    """Wrong before, right now."""
    lost: int
    """Right before, wrong now."""
    n: int

    @property
    def difference(self) -> float:
        """Mean change."""
        return (self.gained - self.lost) / self.n


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
    because the normal approximation errs by up to half of the level. Above, it is approximate.
    """
    z = score_z(counts, -drop)
    changed = max(counts.gained + counts.lost, counts.n * abs(drop))
    return _exact_tail(counts, -drop, z) if changed <= MAX_EXACT else NormalDist().cdf(z)


def _exact_tail(counts: PairedCounts, difference: float, z: float) -> float:
    """Return the probability of a score this low or lower, at the maximum-likelihood share of changed answers.

    Method: Lloyd 2008 (https://doi.org/10.1111/j.1467-842X.2008.00530.x).
    """
    from scipy.special import gammaln, xlogy

    n = counts.n
    share_lost = float(_share_lost(np.array(counts.gained), np.array(counts.lost), n, difference))
    share_gained = max(0.0, share_lost + difference)
    gained, lost = _likely(n, share_gained)[:, None], _likely(n, share_lost)[None, :]
    kept = n - np.arange(gained.size + lost.size - 1.0)
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
    extreme = score_zs(gained, lost, n, difference) <= z + 1e-9
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
    error = np.sqrt(np.maximum(n * shares, 1e-300))
    z: FloatArray = (gained - lost - n * difference) / error
    return z
