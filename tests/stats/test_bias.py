import numpy as np
import pytest
from scipy.stats import spearmanr

from regrade.stats.bias import length_bias, order_bias


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
