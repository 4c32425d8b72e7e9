from math import sqrt

import numpy as np
import pytest

from regrade.stats.paired import bonett_price_interval, noise_reach, paired_difference

NAN = float("nan")


def slow_twin(before: list[float], after: list[float], samples: list[int]) -> tuple[float, float]:
    """Difference and clustered standard error, computed by their definitions."""
    changes: dict[int, list[float]] = {}
    for old, new, sample in zip(before, after, samples, strict=True):
        if old == old and new == new:  # not NaN
            changes.setdefault(sample, []).append(new - old)
    everything = [change for cluster in changes.values() for change in cluster]
    n, clusters = len(everything), len(changes)
    mean = sum(everything) / n
    squares = 0.0
    for cluster in changes.values():
        squares += sum(change - mean for change in cluster) ** 2
    return mean, sqrt(clusters / (clusters - 1) * squares) / n


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("repeats", [1, 3])
def test_it_agrees_with_a_slow_twin(seed: int, repeats: int) -> None:
    rng = np.random.default_rng(seed)
    n = 40 * repeats
    before = rng.integers(0, 2, n).astype(float)
    after = np.where(rng.random(n) < 0.3, 1 - before, before)
    before[rng.random(n) < 0.1] = NAN
    after[rng.random(n) < 0.1] = NAN
    samples = np.repeat(np.arange(40), repeats)

    result = paired_difference(before, after, samples)

    difference, error = slow_twin(list(before), list(after), list(samples))
    assert result.difference == pytest.approx(difference)
    assert result.stderr == pytest.approx(error)
    assert result.after - result.before == pytest.approx(difference)
    assert result.low <= difference <= result.high


def test_the_interval_of_one_answer_each_is_that_of_bonett_and_price() -> None:
    before = np.array([1, 1, 0, 0, 0, 1, 1, 1, 1, 1], float)
    after = np.array([1, 0, 1, 1, 1, 1, 1, 1, 1, 1], float)

    result = paired_difference(before, after, np.arange(10))

    # By hand: 3 gained and 1 lost of 10, so 4/12 - 2/12 ± 1.96 * sqrt((6/12 - (2/12)^2) / 12).
    half = 1.959964 * sqrt((6 / 12 - (2 / 12) ** 2) / 12)
    assert result.low == pytest.approx(2 / 12 - half, abs=1e-6)
    assert result.high == pytest.approx(2 / 12 + half, abs=1e-6)


def test_no_change_still_has_an_interval_with_a_width() -> None:
    same = np.ones(50)

    for samples in (np.arange(50), np.repeat(np.arange(25), 2)):
        result = paired_difference(same, same, samples)
        assert result.difference == 0
        assert result.low < 0 < result.high


def test_rows_missing_on_either_side_are_no_pairs() -> None:
    result = paired_difference(np.array([1, NAN, 0.0]), np.array([NAN, 1, 1.0]), np.arange(3))
    assert (result.n, result.samples, result.difference, result.stderr) == (1, 1, 1.0, None)

    nothing = paired_difference(np.array([NAN]), np.array([1.0]), np.arange(1))
    assert (nothing.n, nothing.difference, nothing.low) == (0, None, None)


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="equal shapes"):
        paired_difference(np.zeros(2), np.zeros(3), np.arange(2))
    with pytest.raises(ValueError, match="do not fit"):
        bonett_price_interval(3, 3, 5)


def test_the_interval_of_repeats_is_normal_with_the_clustered_error() -> None:
    before = np.array([1, 1, 0, 0, 1, 1], float)
    after = np.array([1, 0, 1, 0, 1, 1], float)

    result = paired_difference(before, after, np.array([0, 0, 1, 1, 2, 2]))

    # By hand: sums of the changes are -1, 1 and 0, so the error is sqrt(3 / 2 * 2) / 6.
    assert (result.difference, result.stderr) == pytest.approx((0, sqrt(3) / 6))
    assert (result.low, result.high) == pytest.approx(
        (-1.959964 * sqrt(3) / 6, 1.959964 * sqrt(3) / 6)
    )


def test_repeats_that_all_change_alike_have_the_interval_of_the_questions() -> None:
    result = paired_difference(np.zeros(20), np.ones(20), np.repeat(np.arange(10), 2))

    assert (result.difference, result.stderr) == (1, 0)
    assert (result.low, result.high) == pytest.approx(bonett_price_interval(10, 0, 10))
    worse = paired_difference(np.ones(20), np.zeros(20), np.repeat(np.arange(10), 2))
    assert (worse.low, worse.high) == pytest.approx(bonett_price_interval(0, 10, 10))


@pytest.mark.parametrize("sign", [1, -1])
def test_no_interval_leaves_the_possible_differences(sign: int) -> None:
    change = np.array([1, 1, 1, 0.0])
    before, after = (np.zeros(4), change) if sign > 0 else (change, np.zeros(4))

    single = bonett_price_interval(*((3, 0) if sign > 0 else (0, 3)), 3)
    repeats = paired_difference(before, after, np.array([0, 0, 1, 1]))

    assert sign * max(single, key=abs) == 1.0
    assert sign * max(repeats.low, repeats.high, key=abs) == 1.0


def test_noise_stays_within_its_reach_in_95_of_100_comparisons() -> None:
    rng = np.random.default_rng(7)
    n, share, halves = 1319, 0.02, 0.25
    flips = rng.random((4000, n)) < share
    changes = flips * rng.choice([-0.5, 0.5], (4000, n))

    inside = np.abs(changes.mean(axis=1)) <= noise_reach(share, halves, n)

    assert 0.94 < inside.mean() < 0.965
    assert noise_reach(0.0, 1.0, n) == 0.0
