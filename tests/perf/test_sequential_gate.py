"""Small runs of perf/sequential_gate.py: stopping early keeps the gate's error rate, and needs few questions for clear cases."""

from functools import partial

import pytest

from perf.gate_simulation import GSM8K
from perf.sequential_gate import (
    DATA,
    Draw,
    graded,
    passages,
    permuted,
    real_pairs,
    repeated,
    simulate,
    single,
)

N = 500
BOUND = 0.045
"""Largest share of wrong verdicts at an error rate of 5 %: the true shares are below 4 %. Where the tests at the end have all of the
error rate, and not the part that the test before them leaves, each of these simulations finds more."""


@pytest.mark.parametrize(
    ("draw", "drop"),
    [
        (partial(single, n=400, changed=0.1, drop=0.01), 0.01),
        pytest.param(
            partial(repeated, n=100, repeats=4, drop=0.05, shape="even"),
            0.05,
            marks=pytest.mark.slow,
        ),
        (partial(repeated, n=100, repeats=4, drop=0.05, shape="lost"), 0.05),
        (partial(graded, n=40, drop=0.01), 0.01),
    ],
    ids=["binary", "repeats", "repeats, lost", "graded"],
)
def test_at_the_boundary_wrong_verdicts_are_as_rare_as_promised(draw: Draw, drop: float) -> None:
    found = simulate([draw], drop, N, seed=1)

    assert 0 < found["regression"] <= BOUND
    assert found["pass"] <= BOUND


def test_several_benchmarks_at_the_boundary_keep_the_error_rate_together() -> None:
    edges: list[Draw] = [partial(single, n=200, changed=0.1, drop=0.01)] * 3

    assert 0 < simulate(edges, 0.01, N, seed=1)["regression"] <= BOUND


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder of real answers is not beside the repository"
)
def test_answers_of_real_models_keep_the_promise_and_clear_regressions_need_three_tenths():
    drops = []
    for _, base, candidate in real_pairs():
        drop = float((base - candidate).mean())
        pair = partial(permuted, base=base, candidate=candidate)
        if drop > 0:
            edge = simulate([pair], drop, N, seed=1)
            worse = simulate([pair], 0.01, 40, seed=1)
            assert max(edge["regression"], edge["pass"]) <= BOUND
            assert worse["regression"] == 1
            assert worse["questions"] < 0.3
            drops.append(round(100 * drop, 1))
    assert drops == [17.4, 9.8, 8.3]


def test_bets_on_these_questions_alone_would_break_the_promise() -> None:
    edge = partial(single, n=GSM8K, changed=0.1, drop=0.01)

    assert simulate([edge], 0.01, 40, seed=3)["without replacement"] > 0.2


def test_passages_as_observations_keep_the_promise_that_questions_break_and_stop_later() -> None:
    edge = simulate([partial(passages, n=600, sizes=(15,), changed=0.1, drop=0.01)], 0.01, 100, 6)
    same = simulate([partial(passages, n=800, sizes=(4,), changed=0.005, drop=0.0)], 0.01, 20, 6)

    assert edge["regression"] + edge["pass"] > 0.2
    assert edge["by passage"] <= 0.05
    assert same["stopped"] > 0.5
    assert same["by passage"] == 0
    assert same["prefixes"] > 1
