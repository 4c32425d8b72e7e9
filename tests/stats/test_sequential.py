"""Verdicts before the end: the error rate holds however often one looks, and clear cases need few questions."""

from itertools import pairwise, product

import numpy as np
import pytest

from regrade.stats.decision import changes_of_counts, pass_p, regression_p
from regrade.stats.estimates import FloatArray
from regrade.stats.sequential import (
    SequentialTest,
    Sure,
    decided,
    final_rate,
    random_order,
    request_order,
    running_level,
)

IDS = [f"{number:016x}" for number in range(1_000)]


def watched(changes: FloatArray, level: float = 0.05, max_drop: float = 0.01) -> SequentialTest:
    test = SequentialTest(max_drop, level, level)
    test.add(changes)
    return test


def drawn(
    rng: np.random.Generator, n: int, shares: tuple[float, float, float], size: float = 1.0
) -> FloatArray:
    """Changes that are losses, gains or nothing with these chances."""
    found: FloatArray = rng.choice([-size, size, 0.0], n, p=shares)
    return found


@pytest.mark.parametrize("lost", [0.011, 0.06, 0.3])
@pytest.mark.parametrize("verdict", ["regression", "pass"])
def test_at_the_boundary_a_verdict_is_wrong_at_most_as_often_as_stated(
    lost: float, verdict: Sure
) -> None:
    rng, level, repetitions = np.random.default_rng(1), 0.1, 400
    shares = (lost, lost - 0.01, 1 - 2 * lost + 0.01)

    wrong = sum(
        watched(drawn(rng, 1_500, shares), level).verdict == verdict for _ in range(repetitions)
    )

    assert wrong / repetitions <= level


def test_graded_changes_at_the_boundary_keep_the_level() -> None:
    rng, level = np.random.default_rng(2), 0.1

    verdicts = [watched(rng.uniform(-0.31, 0.29, 800), level).verdict for _ in range(400)]

    assert verdicts.count("regression") <= 400 * level
    assert verdicts.count("pass") <= 400 * level


def test_a_clear_drop_needs_few_questions() -> None:
    rng, level = np.random.default_rng(3), running_level(0.05)

    tests = [watched(drawn(rng, 1_319, (0.189, 0.091, 0.72)), level) for _ in range(50)]

    assert {test.verdict for test in tests} == {"regression"}
    assert np.median([test.n for test in tests]) < 0.3 * 1_319


def test_an_unchanged_model_on_many_questions_passes_after_less_than_three_tenths() -> None:
    rng, level = np.random.default_rng(4), running_level(0.05)

    tests = [watched(drawn(rng, 14_042, (0.025, 0.025, 0.95)), level) for _ in range(100)]

    assert {test.verdict for test in tests} <= {"pass", None}
    assert np.median([test.n for test in tests]) < 0.3 * 14_042


def test_the_verdict_comes_at_the_same_question_however_the_answers_arrive() -> None:
    changes = drawn(np.random.default_rng(5), 1_319, (0.189, 0.091, 0.72))
    at_once = watched(changes)
    one_by_one = SequentialTest(0.01, 0.05, 0.05)

    for change in changes:
        one_by_one.add(np.array([change]))

    assert (one_by_one.verdict, one_by_one.n) == (at_once.verdict, at_once.n)
    assert at_once.verdict == "regression"


def test_answers_after_the_verdict_do_not_change_it() -> None:
    test = watched(np.full(100, -1.0))
    n = test.n

    test.add(np.full(1_000, 1.0))

    assert (test.verdict, test.n) == ("regression", n)


def test_no_answer_is_no_verdict() -> None:
    test = watched(np.empty(0))

    assert (test.verdict, test.n) == (None, 0)


def test_lost_answers_alone_are_a_regression_when_the_mean_of_all_bets_has_won_enough() -> None:
    """The closed form: after n losses, a bet of the share b has grown to (1 + b (1 - drop) / (1 + drop)) ** n."""
    bets = np.geomspace(0.05, 0.95, 8)

    def wealth(n: int) -> float:
        return float(np.mean((1 + bets * 0.99 / 1.01) ** n))

    n = watched(np.full(100, -1.0), level=0.001).n

    assert wealth(n) >= 1_000 > wealth(n - 1)


def test_running_and_final_levels_add_up_to_the_error_rate_for_any_number_of_tests() -> None:
    for tests in (1, 4):
        total = tests * running_level(0.05, tests) + final_rate(0.05)
        assert total == pytest.approx(0.05)


def test_the_random_order_is_fixed_by_the_answer_set() -> None:
    order = random_order("a" * 16, IDS)

    assert sorted(order) == [*range(len(IDS))]
    assert order == random_order("a" * 16, IDS)
    assert order != random_order("b" * 16, IDS)
    assert abs(np.corrcoef(order, range(len(IDS)))[0, 1]) < 0.1


def test_a_question_keeps_its_place_among_the_others_if_questions_are_added() -> None:
    few = [IDS[place] for place in random_order("a" * 16, IDS[:50])]
    many = [IDS[place] for place in random_order("a" * 16, IDS) if place < 50]

    assert few == many


def test_requests_are_sorted_within_windows_of_the_random_order() -> None:
    order = random_order("a" * 16, IDS)

    asked = request_order(order)

    size = len(IDS) // 32
    windows = [asked[first : first + size] for first in range(0, len(IDS), size)]
    assert all(a < b for window in windows for a, b in pairwise(window))
    assert [sorted(order[first : first + size]) for first in range(0, len(IDS), size)] == windows


@pytest.mark.parametrize("max_drop", [0.0, 0.1, 0.3])
def test_what_is_decided_by_curtailment_no_outcome_of_the_rest_changes(max_drop: float) -> None:
    n, found = 30, set()
    levels = {"regression": 0.05, "pass": 0.1}
    for gained, lost, can_gain, can_lose in product((0, 1, 4), (0, 2, 8, 15), (0, 1, 3), (0, 2, 4)):
        certain = decided(
            gained,
            lost,
            n,
            can_gain=can_gain,
            can_lose=can_lose,
            max_drop=max_drop,
            regression_level=levels["regression"],
            pass_level=levels["pass"],
        )
        outcomes = {
            verdict_of_all(gained + i, lost + j, n, max_drop, levels)
            for i in range(can_gain + 1)
            for j in range(can_lose + 1)
        }
        found.add(certain)
        assert outcomes == {certain} or certain is None
        if len(outcomes) > 1:
            assert certain is None
    assert found >= {"regression", None}


def verdict_of_all(
    gained: int, lost: int, n: int, max_drop: float, levels: dict[str, float]
) -> Sure | None:
    changes = changes_of_counts(gained, lost, n)
    if regression_p(changes, max_drop) < levels["regression"]:
        return "regression"
    return "pass" if pass_p(changes, max_drop) < levels["pass"] else None
