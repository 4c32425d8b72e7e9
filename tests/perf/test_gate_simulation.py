"""Small runs of perf/gate_simulation.py: error rates stay within their bounds, and true drops are found."""

from functools import partial

import pytest

from perf.gate_simulation import GSM8K, MMLU, LossShape, few, passages, repeated, simulate, single

N = 400
MARGIN = 0.035
"""Tolerance of a rate of 5 %: three standard errors of 400 repetitions."""


@pytest.mark.parametrize("n", [pytest.param(MMLU, marks=pytest.mark.slow), GSM8K])
@pytest.mark.parametrize("max_drop", [0.0, 0.01])
def test_floating_point_noise_is_hardly_ever_called_a_regression(n: int, max_drop: float) -> None:
    noise = partial(single, n=n, changed=0.005, drop=0.0, max_drop=max_drop)

    found = simulate([noise], max_drop, N, seed=1)

    assert found["regression"] <= (0.05 + MARGIN if max_drop == 0 else 0.0)
    assert found["pass"] > 0.95 or max_drop == 0
    if max_drop == 0:
        assert found["bare"] > 0.35  # rate of a bare threshold


def test_a_drop_of_just_what_is_accepted_is_seldom_decided_either_way() -> None:
    edge = partial(single, n=GSM8K, changed=0.1, drop=0.01, max_drop=0.01)

    found = simulate([edge], 0.01, N, seed=2)

    assert found["regression"] <= 0.05 + MARGIN
    assert found["pass"] <= 0.05 + MARGIN
    assert found["bare"] > 0.35


def test_a_family_of_benchmarks_keeps_the_error_rate() -> None:
    edges = [
        partial(single, n=n, changed=0.05, drop=0.01, max_drop=0.01) for n in (MMLU, GSM8K, 500)
    ]

    found = simulate(edges, 0.01, N, seed=4)

    assert found["regression"] <= 0.05 + MARGIN
    assert found["bare"] > 0.8


def test_repeats_and_passages_keep_the_error_rate() -> None:
    several = partial(repeated, n=300, repeats=3, drop=0.01, max_drop=0.01)
    grouped = partial(passages, n=1_000, size=5, changed=0.1, drop=0.01, max_drop=0.01)

    for draw in (several, grouped):
        found = simulate([draw], 0.01, N, seed=5)
        assert found["regression"] <= 0.05 + MARGIN
        assert found["pass"] <= 0.05 + MARGIN


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param("even", marks=pytest.mark.slow),
        "lost",
        pytest.param("sure", marks=pytest.mark.slow),
    ],
)
def test_many_repeats_of_few_questions_keep_the_error_rate(shape: LossShape) -> None:
    for n, repeats, drop in ((20, 16, 0.2), (30, 64, 0.1), (100, 16, 0.05)):
        lost = partial(few, n=n, repeats=repeats, drop=drop, max_drop=drop, shape=shape)

        found = simulate([lost], drop, N, seed=6)

        assert found["regression"] <= 0.05 + MARGIN
        assert found["pass"] <= 0.05 + MARGIN
