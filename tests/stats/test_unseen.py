from itertools import product

import numpy as np
import pytest

from regrade.stats.unseen import unseen_loss_p


@pytest.mark.parametrize(("n", "whole"), [(30, 1.0), (30, 16.0), (200, 64.0), (14_042, 4.0)])
def test_without_any_change_the_rule_of_three_holds(n: int, whole: float) -> None:
    drop = 3 / n

    assert unseen_loss_p(np.zeros(n), whole, drop, 0.0) == pytest.approx((1 - drop) ** n)
    assert (
        unseen_loss_p(np.zeros(n), whole, 3.05 / n, 0.0)
        < 0.05
        < unseen_loss_p(np.zeros(n), whole, 2.8 / n, 0.0)
    )


def test_a_drop_of_less_than_one_question_is_likely_in_no_change_at_all() -> None:
    assert unseen_loss_p(np.zeros(10), 1.0, 0.05, 0.0) == pytest.approx(0.95**10)


def test_the_tail_is_the_sum_over_all_samples_of_the_most_likely_distribution() -> None:
    """Two of three clusters are unchanged and one gained a half; a lost cluster gets the rest of the weight."""
    changes, drop = np.array([0.0, 0.0, 0.5]), 0.4
    tilt = 1 / (1 - drop)  # as large as possible: the lost cluster was not observed
    weights = {
        value: count / (3 * (1 + tilt * (value + drop))) for value, count in ((0.0, 2), (0.5, 1))
    }
    weights[-1.0] = 1 - sum(weights.values())
    assert sum(value * weight for value, weight in weights.items()) == pytest.approx(-drop)
    expected = sum(
        float(np.prod([weights[value] for value in drawn]))
        for drawn in product(weights, repeat=3)
        if sum(drawn) >= changes.sum()
    )

    assert unseen_loss_p(changes * 2, 2.0, drop, 0.0) == pytest.approx(expected)


def test_an_observed_loss_counts_like_any_other() -> None:
    changes = np.repeat([-1.0, 0.0], [1, 9])  # mean -0.1

    assert unseen_loss_p(changes, 1.0, 0.1, 0.0) == 1.0
    assert unseen_loss_p(changes, 1.0, 0.05, 0.0) == 1.0
    # Binomial with a lost share of 0.4: at most one of ten.
    assert unseen_loss_p(changes, 1.0, 0.4, 0.0) == pytest.approx(0.6**10 + 10 * 0.4 * 0.6**9)


@pytest.mark.parametrize("seed", range(4))
def test_the_unit_of_the_sums_hardly_matters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sums = (rng.binomial(16, 0.5, 60) - rng.binomial(16, 0.5, 60)).astype(np.float64)
    drop = 0.05 - sums.mean() / 16

    assert unseen_loss_p(sums, 16.0, drop, 0.0) == pytest.approx(
        unseen_loss_p(sums / 16, 1.0, drop, 0.0), abs=0.01
    )


def test_many_answers_to_many_questions_agree_with_the_normal_test() -> None:
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    sums = (rng.binomial(4, 0.5, 1319) - rng.binomial(4, 0.5, 1319)).astype(np.float64)
    change = sums / 4
    drop = 0.02 - change.mean()
    error = np.sqrt((change.var() + 0.02) / 1319)  # the hypothesis adds lost clusters

    assert unseen_loss_p(sums, 4.0, drop, 0.0) == pytest.approx(norm.sf(0.02 / error), abs=0.02)


def test_noise_smaller_than_a_lost_question_does_not_decide() -> None:
    """Half of the noise is above its mean, but no question was lost: the p-value is nearly that of no loss at all."""
    noise = np.tile([1.0, -1.0], 15)  # of 64 answers to each question
    drop = 0.08

    alone = unseen_loss_p(noise, 64.0, drop, 0.0)
    p = unseen_loss_p(noise, 64.0, drop, float(noise.std(ddof=1) / 64 / 30**0.5))

    assert alone == pytest.approx(0.6 * (1 - drop) ** 30, rel=0.1)
    assert 1.2 * alone < p < (1 - drop) ** 30


def test_rounding_of_fractions_moves_the_hypothesis_too() -> None:
    """Every cluster gained 0.0024, which is less than half of a step of 1/200."""
    gain, drop = 0.0024, 0.02

    p = unseen_loss_p(np.full(100, gain), 1.0, drop, 0.0)

    assert p == pytest.approx((1 - (drop + gain) / (1 + gain)) ** 100, rel=0.01)
