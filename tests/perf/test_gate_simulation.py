"""Small runs of perf/gate_simulation.py: error rates stay within their bounds, and true drops are found."""

from functools import partial

import pytest

from perf.gate_simulation import GSM8K, MMLU, few, passages, repeated, simulate, single

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


FEW = ((20, 16, 0.2), (30, 64, 0.1), (100, 16, 0.05))
"""Questions, repeats and accepted drop."""


@pytest.mark.parametrize(
    ("draws", "drops"),
    [
        ([partial(single, n=GSM8K, changed=0.1)], [0.01]),
        ([partial(repeated, n=300, repeats=3)], [0.01]),
        ([partial(passages, n=1_000, size=5, changed=0.1)], [0.01]),
        *(
            pytest.param(
                [partial(few, n=n, repeats=repeats, shape=shape) for n, repeats, _ in FEW],
                [drop for *_, drop in FEW],
                marks=[] if shape == "lost" else pytest.mark.slow,
            )
            for shape in ("even", "lost", "sure")
        ),
    ],
    ids=["single", "repeats", "passages", "even", "lost", "sure"],
)
def test_a_drop_of_just_what_is_accepted_is_seldom_decided_either_way(
    draws: list[partial[tuple[float, float, float]]], drops: list[float]
) -> None:
    for draw, drop in zip(draws, drops, strict=True):
        found = simulate([partial(draw, drop=drop, max_drop=drop)], drop, N, seed=6)

        assert found["regression"] <= 0.05 + MARGIN
        assert found["pass"] <= 0.05 + MARGIN


def test_a_family_of_benchmarks_keeps_the_error_rate() -> None:
    edges = [
        partial(single, n=n, changed=0.05, drop=0.01, max_drop=0.01) for n in (MMLU, GSM8K, 500)
    ]

    found = simulate(edges, 0.01, N, seed=4)

    assert found["regression"] <= 0.05 + MARGIN
    assert found["bare"] > 0.8
