"""Power of the gate's tests: the smallest drop they find, and the number of questions an unchanged model needs to pass.

With one right or wrong answer to each question, the power is summed over all outcomes of the tests that decide. For
repeats, passages and values between 0 and 1 it is approximate.
"""

from collections.abc import Callable
from math import ceil, log, log2, sqrt
from statistics import NormalDist

import numpy as np

from regrade.stats.decision import PairedChanges, changes_of_counts, pass_p, regression_p
from regrade.stats.estimates import IntArray
from regrade.stats.margins import MAX_EXACT, PairedCounts, score_zs

POWER = 0.8
"""Probability with which a detectable drop is found, and with which an unchanged model passes."""
_STEPS = 24
"""Bisection steps; the error, 1 / 2**24, is below the shown digits."""
_LIKELY = 4.5
"""Standard deviations within which counts are summed; the rest has a probability below 0.0001."""
_TRIES = 12
"""Most numbers of questions for which the power is computed."""


def detectable_drop(changes: PairedChanges, drop: float, alpha: float) -> float:
    """Return the smallest true drop that is found to exceed `drop` with a probability of `POWER`.

    Assumes the observed share of changed questions, with one gain and one loss added so that it is never 0, but at
    least the drop itself.

    Args:
        changes: Paired answers.
        drop: Accepted drop, in [0, 1).
        alpha: Level of the one-sided test.

    Returns:
        A drop in (0, 1]; 1.0 if no drop would be found.
    """
    if changes.corrected is not None:
        from scipy.special import stdtrit

        quantile = float(stdtrit(changes.corrected.df, 1 - alpha)) + NormalDist().inv_cdf(POWER)
        return min(1.0, drop + quantile * changes.corrected.stderr)
    if changes.counts is None:
        return _detectable_in_clusters(changes, drop, alpha)
    changed, n = _changed(changes.counts), changes.counts.n
    needed = _needed_losses(n, max(changed - drop, 0.0) / 2, drop, alpha)

    def found(true: float) -> bool:
        share = max(changed, true)
        return _probability(n, needed, (share - true) / 2, (share + true) / 2) >= POWER

    return _smallest(found, drop)


def questions_needed(changes: PairedChanges, drop: float, alpha: float) -> int | None:
    """Return the number of questions with which an unchanged model would pass with a probability of `POWER`.

    Assumes the observed share of changed questions, with one gain and one loss added. None if `drop` is 0, and for
    differences corrected by labels, whose number counts as well.

    Args:
        changes: Paired answers.
        drop: Accepted drop, in [0, 1).
        alpha: Level of the one-sided test.
    """
    if drop == 0 or changes.corrected is not None:
        return None
    if changes.counts is None:
        return _needed_in_clusters(changes, drop, alpha)
    changed = _changed(changes.counts)
    by_normal = _needed_by_normal(changed, drop, alpha)

    def passes(n: int) -> bool:
        # A pass is a regression with gains and losses exchanged, beyond a negative drop.
        needed = _needed_losses(n, changed / 2, -drop, alpha)
        return _probability(n, needed, changed / 2, changed / 2) >= POWER

    if max(changed, drop) * by_normal > MAX_EXACT:
        return ceil(by_normal)
    low, high = 1, ceil(by_normal)
    while not passes(high):
        low, high = high, ceil(1.25 * high)
    low = max(low, high // 2)
    for _ in range(_TRIES):
        if high - low <= max(1, high // 100):
            break
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def can_pass(n: int, drop: float, alpha: float) -> bool:
    """Return True if a model that changes no answer of `n` questions passes: with fewer, only a better model can."""
    return pass_p(changes_of_counts(0, 0, n), drop) < alpha


def what_passes(n: int, drop: float, alpha: float) -> tuple[int, int]:
    """Return the smallest whole drop in points with which `n` questions can pass, and the number that can with `drop`, above 0."""
    least = next(p for p in range(1, 101) if p == 100 or can_pass(n, p / 100, alpha))
    enough = ceil(log(alpha) / log(1 - drop))
    while not can_pass(enough, drop, alpha):
        enough += 1
    return least, enough


def drop_that_passes(n: int, changed: float, alpha: float) -> float:
    """Return the smallest accepted drop at which an unchanged model passes with a probability of `POWER`, approximately.

    Args:
        n: Questions, with one right or wrong answer each.
        changed: Share of answers that change between right and wrong, in (0, 1].
        alpha: Level of the one-sided test.
    """
    return _smallest(lambda drop: _needed_by_normal(changed, drop, alpha) <= n, 0.0)


def _needed_by_normal(changed: float, drop: float, alpha: float) -> float:
    z_alpha, z_power = (NormalDist().inv_cdf(level) for level in (1 - alpha, POWER))
    null = max(changed, drop) - drop**2
    return ((z_alpha * sqrt(null) + z_power * sqrt(changed)) / drop) ** 2


def _changed(counts: PairedCounts) -> float:
    return min(1.0, (counts.gained + counts.lost + 2) / (counts.n + 2))


def _needed_losses(n: int, share_gained: float, drop: float, alpha: float) -> IntArray:
    """Return, for each likely number of gains from 0, the smallest number of losses that is called a regression.

    Shape (n_gains,). `n - gains + 1` if no number is. For a negative drop, the test of a pass with gains and losses
    exchanged.
    """
    most = n * share_gained
    gained = np.arange(min(n, ceil(most + _LIKELY * sqrt(most)) + 3) + 1)
    needed = _by_normal_test(n, gained, drop, alpha)
    losses = 0
    for gains in range(len(gained)):
        losses = min(max(int(needed[gains]), losses), n - gains + 1)
        if max(gains + losses, n * abs(drop)) <= MAX_EXACT:
            while losses > 0 and _excluded(n, gains, losses - 1, drop, alpha):
                losses -= 1
            while losses + gains <= n and not _excluded(n, gains, losses, drop, alpha):
                losses += 1
        needed[gains] = losses
    return needed


def _excluded(n: int, gained: int, lost: int, drop: float, alpha: float) -> bool:
    """Return True if the tests exclude the drop after these changes."""
    changes = changes_of_counts(gained, lost, n)
    if drop < 0:
        return pass_p(changes.mirrored, -drop) < alpha
    return regression_p(changes, drop) < alpha


def _by_normal_test(n: int, gained: IntArray, drop: float, alpha: float) -> IntArray:
    """Return `_needed_losses` by the normal score test and, if `drop` is not negative, the exact test of no drop."""
    from scipy.special import bdtr

    z_alpha = NormalDist().inv_cdf(alpha)
    low, high = np.full(len(gained), -1), n - gained + 1
    for _ in range(ceil(log2(n + 2)) + 1):
        middle = (low + high) // 2
        losses = np.maximum(middle, 0)
        found = score_zs(gained.astype(float), losses.astype(float), n, -drop) < z_alpha
        if drop >= 0:
            found &= bdtr(gained.astype(float), gained + losses, 0.5) < alpha
        high = np.where(found, middle, high)
        low = np.where(found, low, middle)
    return np.maximum(high, 0)


def _probability(n: int, needed: IntArray, share_gained: float, share_lost: float) -> float:
    """Return the probability of at least the needed losses, over all likely numbers of gains."""
    from scipy.stats import binom

    gained = np.arange(len(needed))
    chance_lost = min(1.0, share_lost / max(1 - share_gained, 1e-12))
    gains = binom.pmf(gained, n, share_gained)
    return float((gains * binom.sf(needed - 1, n - gained, chance_lost)).sum())


def _detectable_in_clusters(changes: PairedChanges, drop: float, alpha: float) -> float:
    """Return `detectable_drop` of a loss that hits few clusters, each entirely; other losses are found more often.

    The larger of the normal approximation, and of the drop at which the exact test finds enough lost clusters.
    """
    n_clusters = len(changes.sums)
    variance, z = _variance(changes), _z_sum(changes, alpha)

    def found(true: float) -> bool:
        return true - drop >= z * sqrt((variance + true * (1 - true)) / n_clusters)

    unchanged = changes_of_counts(0, 0, n_clusters)
    return max(_smallest(found, drop), detectable_drop(unchanged, 0.0, alpha))


def _needed_in_clusters(changes: PairedChanges, drop: float, alpha: float) -> int:
    by_normal = _variance(changes) * (_z_sum(changes, alpha) / drop) ** 2
    at_least = log(alpha) / log(1 - drop)  # below, even no change at all is no pass
    return ceil(max(by_normal, at_least) * changes.n / len(changes.sums))


def _variance(changes: PairedChanges) -> float:
    """Return the variance of a cluster's change, with one gain and one loss of usual size added."""
    sizes = changes.sums[changes.sums != 0] / changes.whole
    added = 2 * float(np.square(sizes).mean()) if len(sizes) else 2.0
    n_clusters = len(changes.sums)
    return (n_clusters**2 * (changes.stderr or 0.0) ** 2 + added) / (n_clusters + 2)


def _z_sum(changes: PairedChanges, alpha: float) -> float:
    from scipy.special import stdtrit

    df = max(1, len(changes.sums) - 1)
    return float(stdtrit(df, 1 - alpha)) + NormalDist().inv_cdf(POWER)


def _smallest(holds: Callable[[float], bool], low: float) -> float:
    """Return the smallest share from `low` to 1 at which a condition holds, by bisection; 1.0 if at none."""
    high = 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
