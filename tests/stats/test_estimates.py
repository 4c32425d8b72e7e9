from collections.abc import Callable
from itertools import combinations
from math import comb, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from statsmodels.stats.proportion import proportion_confint

from regrade.stats.estimates import (
    clustered_standard_error,
    majority,
    normal_interval,
    pass_at_k,
    wilson_interval,
)

scores = st.lists(st.floats(0, 1), min_size=2, max_size=40).map(np.array)


@given(scores)
def test_the_standard_error_agrees_with_a_slow_twin(values: np.ndarray) -> None:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)

    error = clustered_standard_error(values, np.arange(len(values)))
    assert error == pytest.approx(sqrt(variance / len(values)), abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 1000])
def test_clusters_of_one_mean_have_no_error_at_all(n: int) -> None:
    assert clustered_standard_error(np.full(n, 0.1), np.arange(n)) == 0.0
    one_of_three = np.tile([1.0, 0.0, 0.0], n)  # no float is a third
    assert clustered_standard_error(one_of_three, np.repeat(np.arange(n), 3)) == 0.0


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (clustered_standard_error, ([0.0, np.nan], [0, 1]), "not finite"),
        (clustered_standard_error, ([0.0, np.inf], [0, 1]), "not finite"),
        (clustered_standard_error, ([0.0, 1.0], [7, 7]), "2 clusters or more, got 1"),
        (clustered_standard_error, ([], []), "2 clusters or more, got 0"),
        (clustered_standard_error, ([0.0, 1.0], [1, 2, 3]), "cluster ids"),
        (pass_at_k, ([4, 2], [1, 1], 3), "pass@"),
        (pass_at_k, ([4, 2], [1, 1], 0), "pass@"),
        (pass_at_k, ([4, 2], [1, 3], 1), "Correct generations"),
        (pass_at_k, ([4, 2], [1, -1], 1), "Correct generations"),
        (wilson_interval, (0, 0), "successes"),
        (wilson_interval, (2, 1), "successes"),
        (wilson_interval, (-1, 3), "successes"),
    ],
)
def test_what_is_not_defined_is_refused(
    function: Callable[..., Any], arguments: tuple[Any, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        function(*(np.array(a, float) if isinstance(a, list) else a for a in arguments))


@given(st.data())
@settings(max_examples=60)
def test_the_clustered_error_agrees_with_the_double_sum_of_the_paper(data: st.DataObject) -> None:
    values = data.draw(scores)
    clusters = np.array(
        data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    )
    ids = set(clusters.tolist())
    if len(ids) < 2:
        return
    mean = sum(values) / len(values)
    total = 0.0
    for cluster in ids:
        members = [value for value, own in zip(values, clusters, strict=True) if own == cluster]
        total += sum((score - mean) * (other - mean) for score in members for other in members)
    expected = sqrt(max(total, 0.0) * len(ids) / (len(ids) - 1)) / len(values)

    assert clustered_standard_error(values, clusters) == pytest.approx(expected, abs=1e-7)


def test_answers_copied_within_clusters_add_no_certainty() -> None:
    values = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    copied, clusters = np.repeat(values, 8), np.repeat(np.arange(5), 8)

    alone = clustered_standard_error(values, np.arange(5))
    assert clustered_standard_error(copied, clusters) == pytest.approx(alone)


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_wilson_interval_agrees_with_statsmodels(counts: tuple[int, int]) -> None:
    successes, n = counts

    expected = proportion_confint(successes, n, method="wilson")
    assert_allclose(wilson_interval(successes, n), expected, atol=1e-12)


@given(st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_wilson_interval_holds_the_rate_and_stays_within_its_bounds(
    counts: tuple[int, int],
) -> None:
    successes, n = counts
    low, high = wilson_interval(successes, n)

    assert 0 <= low <= successes / n <= high <= 1
    assert high > low


def test_the_normal_interval_is_cut_to_what_is_possible() -> None:
    assert normal_interval(0.5, 0.1) == pytest.approx((0.304, 0.696), abs=1e-4)
    assert normal_interval(0.99, 0.1)[1] == 1.0
    assert normal_interval(0.01, 0.1)[0] == 0.0


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_answer(counts: tuple[int, int]) -> None:
    n, correct = counts
    generations = [True] * correct + [False] * (n - correct)

    for k in range(1, n + 1):
        draws = list(combinations(generations, k))
        expected = sum(map(any, draws)) / len(draws)
        assert pass_at_k(np.array([n]), np.array([correct]), k)[0] == pytest.approx(expected)


def test_pass_at_k_has_a_closed_form_and_does_not_overflow() -> None:
    n, correct, k = 2000, 3, 700

    expected = 1 - comb(n - correct, k) / comb(n, k)

    assert pass_at_k(np.array([n]), np.array([correct]), k)[0] == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_the_majority_agrees_with_a_slow_twin(votes: list[tuple[int, int]]) -> None:
    expected = []
    for sample in sorted({sample for sample, _ in votes}):
        given_answers = [answer for voter, answer in votes if voter == sample]
        # max returns the first of equal counts, in the order of the votes.
        winner = max(dict.fromkeys(given_answers), key=given_answers.count)
        expected.append(votes.index((sample, winner)))
    samples = np.array([sample for sample, _ in votes], dtype=np.int64)
    answers = np.array([answer for _, answer in votes], dtype=np.int64)

    assert majority(samples, answers).tolist() == expected
