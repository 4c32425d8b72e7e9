import numpy as np
import pytest
import scipy.optimize
from scipy.stats import spearmanr

from regrade.stats.bias import controlled_wins, length_bias, order_bias, style_of


def test_the_correlation_is_spearmans_and_its_interval_is_over_questions() -> None:
    rng = np.random.default_rng(0)
    length = rng.integers(10, 500, 200)
    verdict = (rng.random(200) < length / 500).astype(float)

    alone = length_bias(verdict, length, np.arange(200)).spearman
    grouped = length_bias(
        np.repeat(verdict, 4), np.repeat(length, 4), np.repeat(np.arange(200), 4)
    ).spearman

    assert alone.value == pytest.approx(spearmanr(verdict, length).statistic)
    assert 0 < alone.low < alone.value < alone.high
    assert grouped.high - grouped.low == pytest.approx(alone.high - alone.low, rel=0.2)


def test_quarters_go_from_the_shortest_answers_to_the_longest() -> None:
    length = np.arange(40)[::-1]
    verdict = (length >= 30).astype(float)

    quarters = length_bias(verdict, length, np.arange(40)).quarters

    assert [quarter.mean for quarter in quarters] == [0, 0, 0, 1]
    assert [(quarter.shortest, quarter.longest) for quarter in quarters] == [
        (0, 9),
        (10, 19),
        (20, 29),
        (30, 39),
    ]


def test_equal_verdicts_have_no_correlation_and_few_answers_no_statement() -> None:
    same = length_bias(np.ones(40), np.arange(40), np.arange(40))

    assert same.spearman.value is None
    assert length_bias(np.ones(19), np.arange(19), np.arange(19)) is None


def test_a_judge_that_takes_the_first_answer_is_found() -> None:
    rng = np.random.default_rng(1)
    first = np.where(rng.random(100) < 0.8, 1.0, 0.0)

    bias = order_bias(first, np.r_[np.ones(30), np.zeros(60), np.full(10, np.nan)], np.arange(100))

    assert bias.prefers_first.low > 0.5
    assert bias.inconsistent == pytest.approx(1 / 3)
    assert order_bias(np.empty(0), np.empty(0), np.empty(0, np.int64)) is None


def pairs_of(seed: int, n: int, *, better: float, by_length: float, ties: float = 0.0):
    """Pairs of a judge that prefers the candidate by `better`, and longer answers by `by_length`, as log-odds."""
    rng = np.random.default_rng(seed)
    candidate, baseline = rng.integers(1, 400, (2, n, 4))
    candidate[:, 0] += 150
    unlike = (candidate - baseline)[:, 0] / (candidate + baseline)[:, 0]
    wins = (rng.random(n) < 1 / (1 + np.exp(-better - by_length * unlike))).astype(float)
    wins[rng.random(n) < ties] = 0.5
    return wins, candidate, baseline


def test_wins_at_equal_length_are_those_of_a_judge_without_its_preference_for_length():
    errors, within = [], 0
    for seed in range(100):
        wins, candidate, baseline = pairs_of(seed, 300, better=0.0, by_length=2.0)
        assert wins.mean() > 0.53
        found = controlled_wins(wins, candidate, baseline, np.arange(300))
        errors.append([found.length.value - 0.5, found.style.value - 0.5])
        within += found.length.low < 0.5 < found.length.high
    assert np.abs(np.mean(errors, axis=0)).max() < 0.01
    assert within >= 90


def test_the_regression_is_that_of_a_plain_search_for_the_most_likely_coefficients():
    wins, candidate, baseline = pairs_of(2, 300, better=0.4, by_length=1.0, ties=0.1)
    unlike = (candidate - baseline)[:, 0] / (candidate + baseline)[:, 0]

    def cost(coefficients):
        share = 1 / (1 + np.exp(-coefficients[0] - coefficients[1] * unlike))
        return -(wins * np.log(share) + (1 - wins) * np.log(1 - share)).sum()

    intercept = scipy.optimize.minimize(cost, [0.0, 0.0], tol=1e-10).x[0]
    found = controlled_wins(wins, candidate, baseline, np.arange(300))
    assert found.length.value == pytest.approx(1 / (1 + np.exp(-intercept)), abs=1e-5)


def test_several_pairs_of_a_question_make_the_interval_wider():
    wins, candidate, baseline = (
        np.repeat(a, 5, 0) for a in pairs_of(3, 200, better=0, by_length=1)
    )
    alone = controlled_wins(wins, candidate, baseline, np.arange(1000)).length
    grouped = controlled_wins(wins, candidate, baseline, np.arange(1000) // 5).length
    assert (grouped.high - grouped.low) > 2 * (alone.high - alone.low)


def test_a_length_that_decides_every_pair_has_no_share_and_few_pairs_have_none():
    wins, candidate, baseline = pairs_of(4, 60, better=0, by_length=1)
    decided = (candidate[:, 0] > baseline[:, 0]).astype(float)
    assert controlled_wins(decided, candidate, baseline, np.arange(60)).length is None
    assert controlled_wins(wins, candidate, baseline, np.arange(60) // 4) is None
    same = controlled_wins(wins, candidate, candidate, np.arange(60)).style
    assert same.value == pytest.approx(wins.mean())


def test_style_is_length_headings_list_items_and_bold_text():
    assert style_of("# A\n\n- one\n* two\n10. three\n3.5 is **bold** and **so**") == (53, 1, 3, 2)
    assert style_of("") == (0, 0, 0, 0)
