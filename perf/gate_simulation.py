"""Simulate the error rates and the power of the gate with its own statistical tests.

    python -m perf.gate_simulation                       # perf/results/gate_simulation.json, about fifteen minutes
    python -m perf.gate_simulation --repetitions 500 --only noise
    python -m perf.gate_simulation --repetitions 2000 --only few

Each row has a kind of comparison, a number of questions, the share of changed answers and the true drop of accuracy.
`regression`, `pass` and `cannot tell` are shares of the repetitions, ± two standard errors. `bare` is the share in which
a bare threshold (observed drop above `max_drop`) reports a regression. The gate's error rate is 5 %. `few` has few
questions with many repeats, and losses of different shapes (`LossShape`).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from math import sqrt
from typing import Any, Literal

import numpy as np

from perf.measuring import arguments_of, report
from regrade.stats.decision import changes_of_counts, paired_changes, pass_p, regression_p
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.power import detectable_drop
from regrade.stats.significance import holm

ALPHA = 0.05
MMLU, GSM8K = 14_042, 1_319
"""Number of questions."""
Draw = Callable[[np.random.Generator], tuple[float, float, float]]
"""Simulates a benchmark; returns p of a regression, p of a pass, and the observed difference."""


LossShape = Literal["even", "lost", "sure"]
"""Every question is lower by the drop; some questions fall to 0; some questions fall to 0 that were always right."""
FEW = ((20, 0.2), (30, 0.05), (30, 0.1), (60, 0.05), (100, 0.02), (100, 0.05), (200, 0.02))
"""Numbers of questions and accepted drops simulated with many repeats."""
DECIDED = ((30, 0.08), (60, 0.04), (100, 0.024))
"""The same, with questions that a model answers nearly always or nearly never, so that one lost question decides."""
REPEATS = (4, 16, 64)


@lru_cache(maxsize=1_000_000)
def _p_values(gained: int, lost: int, n: int, max_drop: float) -> tuple[float, float]:
    changes = changes_of_counts(gained, lost, n)
    return regression_p(changes, max_drop), pass_p(changes, max_drop)


def single(
    rng: np.random.Generator, *, n: int, changed: float, drop: float, max_drop: float
) -> tuple[float, float, float]:
    """One answer per question: the share `changed` differs between the sides, with `drop` more losses than gains."""
    shares = [(changed - drop) / 2, (changed + drop) / 2, 1 - changed]
    gained, lost, _ = (int(count) for count in rng.multinomial(n, shares))
    return *_p_values(gained, lost, n, max_drop), (gained - lost) / n


def repeated(
    rng: np.random.Generator, *, n: int, repeats: int, drop: float, max_drop: float
) -> tuple[float, float, float]:
    """Several sampled answers per question; each question has a different chance, which the candidate lowers by `drop`."""
    chance = rng.beta(2, 1, n) * (1 - drop) + drop  # at least `drop`, so that it can be subtracted
    base, candidate = (rng.binomial(repeats, p, n) for p in (chance, chance - drop))
    return _clustered((candidate - base) / repeats, np.arange(n), repeats, max_drop)


def few(
    rng: np.random.Generator,
    *,
    max_drop: float,
    **drawn: Any,  # noqa: ANN401 - those of `few_changes`
) -> tuple[float, float, float]:
    """Many sampled answers to each of few questions, drawn by `few_changes`."""
    change = few_changes(rng, **drawn)
    return _clustered(change, np.arange(len(change)), drawn["repeats"], max_drop)


def few_changes(
    rng: np.random.Generator,
    *,
    n: int,
    repeats: int,
    drop: float,
    shape: LossShape,
    spread: float = 0.5,
) -> FloatArray:
    """Return the changes of few questions, shape (n,): candidate minus baseline.

    The chance of a right answer has a beta distribution; the lower `spread`, the closer to 0 and 1.
    """
    before = rng.beta(spread, spread, n)
    hit = rng.random(n) < (2 * drop if shape == "lost" else drop)  # the mean chance is 0.5
    if shape == "even":
        before = before * (1 - drop) + drop  # at least `drop`, so that it can be subtracted
        after = before - drop
    else:
        before = np.where(hit & (shape == "sure"), 1.0, before)
        after = np.where(hit, 0.0, before)
    base, candidate = (rng.binomial(repeats, chance) for chance in (before, after))
    change: FloatArray = (candidate - base) / repeats
    return change


def passages(
    rng: np.random.Generator, *, n: int, size: int, changed: float, drop: float, max_drop: float
) -> tuple[float, float, float]:
    """Several questions per passage; see `passage_changes`."""
    change, passage = passage_changes(rng, np.full(n // size, size), changed, drop)
    return _clustered(change, passage, 1, max_drop)


def passage_changes(
    rng: np.random.Generator, sizes: IntArray, changed: float, drop: float
) -> tuple[FloatArray, IntArray]:
    """Return the changes of questions about passages, half of them common to the passage, and the number of each question's passage."""
    passage = np.repeat(np.arange(len(sizes)), sizes)
    shares = [(changed - drop) / 2, (changed + drop) / 2, 1 - changed]
    single_change = rng.choice([1.0, -1.0, 0.0], len(passage), p=shares)
    common_change = rng.choice([1.0, -1.0, 0.0], len(sizes), p=shares)[passage]
    return np.where(rng.random(len(passage)) < 0.5, single_change, common_change), passage


def _clustered(
    change: FloatArray, cluster: np.ndarray[Any, Any], scale: int, max_drop: float
) -> tuple[float, float, float]:
    changes = paired_changes(change, cluster, scale)
    return regression_p(changes, max_drop), pass_p(changes, max_drop), float(change.mean())


def scenarios() -> Iterator[tuple[str, str, int, float, float, float, list[Draw]]]:
    """Yield kind, description, n, changed, drop, max_drop, and a function per benchmark that simulates it."""
    for n in (MMLU, GSM8K):
        for changed in (0.005, 0.05):
            for max_drop in (0.0, 0.01):
                draw = partial(single, n=n, changed=changed, drop=0.0, max_drop=max_drop)
                yield "noise", "two runs of one model", n, changed, 0.0, max_drop, [draw]
    for n, changed in ((MMLU, 0.015), (MMLU, 0.2), (GSM8K, 0.015), (GSM8K, 0.2), (300, 0.05)):
        draw = partial(single, n=n, changed=changed, drop=0.01, max_drop=0.01)
        yield "boundary", "a drop of just what is accepted", n, changed, 0.01, 0.01, [draw]
    for n, changed in ((MMLU, 0.05), (MMLU, 0.2), (GSM8K, 0.05), (GSM8K, 0.2)):
        half = round(changed * n / 2)
        drop = round(detectable_drop(changes_of_counts(half, half, n), 0.01, ALPHA), 4)
        draw = partial(single, n=n, changed=changed, drop=drop, max_drop=0.01)
        yield "power", "the drop it says it finds", n, changed, drop, 0.01, [draw]
    draws: list[Draw]
    for drop, what in ((0.0, "noise"), (0.01, "all at the boundary")):
        draws = [
            partial(single, n=n, changed=0.05, drop=drop, max_drop=0.01)
            for n in (MMLU, GSM8K, GSM8K, 500)
        ]
        yield "family", f"4 benchmarks, {what}", MMLU, 0.05, drop, 0.01, draws
    for drop in (0.0, 0.01, 0.05):
        several = partial(repeated, n=500, repeats=4, drop=drop, max_drop=0.01)
        yield "repeats", "4 answers to each question", 500, float("nan"), drop, 0.01, [several]
        grouped = partial(passages, n=2_000, size=5, changed=0.1, drop=drop, max_drop=0.01)
        yield "passages", "5 questions to each passage", 2_000, 0.1, drop, 0.01, [grouped]
    for n, max_drop in FEW:
        yield from _few_scenarios(n, max_drop, REPEATS, 0.5)
    for n, max_drop in DECIDED:
        yield from _few_scenarios(n, max_drop, REPEATS[1:], 0.1)


def _few_scenarios(
    n: int, max_drop: float, all_repeats: Sequence[int], spread: float
) -> Iterator[tuple[str, str, int, float, float, float, list[Draw]]]:
    cases: tuple[tuple[str, float, LossShape], ...] = (
        ("unchanged", 0.0, "even"),
        ("even", max_drop, "even"),
        ("lost", max_drop, "lost"),
        ("sure", max_drop, "sure"),
    )
    decided = ", decided" if spread < 0.5 else ""
    for repeats in all_repeats:
        for name, drop, shape in cases:
            fixed: dict[str, Any] = {"n": n, "repeats": repeats, "drop": drop, "max_drop": max_drop}
            draw = partial(few, **fixed, shape=shape, spread=spread)
            what = f"{repeats} repeats{decided}, {name}"
            yield "few", what, n, float("nan"), drop, max_drop, [draw]


def simulate(draws: list[Draw], max_drop: float, repetitions: int, seed: int) -> dict[str, float]:
    """Shares of the verdicts on several benchmarks, and of regressions by a bare threshold."""
    rng = np.random.default_rng(seed)
    counts = {"regression": 0, "pass": 0, "cannot tell": 0, "bare": 0}
    for _ in range(repetitions):
        drawn = [draw(rng) for draw in draws]
        adjusted = holm([regression for regression, _, _ in drawn])
        if min(adjusted) < ALPHA:
            counts["regression"] += 1
        elif all(passed < ALPHA for _, passed, _ in drawn):
            counts["pass"] += 1
        else:
            counts["cannot tell"] += 1
        counts["bare"] += any(difference < -max_drop for _, _, difference in drawn)
    return {name: count / repetitions for name, count in counts.items()}


def rows(repetitions: int, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield a row per scenario."""
    for seed, (kind, what, n, changed, drop, max_drop, draws) in enumerate(scenarios()):
        if only in (None, kind):
            shares = simulate(draws, max_drop, repetitions, seed)
            spread = {
                name: round(2 * sqrt(share * (1 - share) / repetitions), 4)
                for name, share in shares.items()
            }
            yield {
                "kind": kind,
                "what": what,
                "n": n,
                "changed %": None if changed != changed else round(100 * changed, 2),
                "drop": round(100 * drop, 2),
                "max_drop": round(100 * max_drop, 2),
                "repetitions": repetitions,
                **{name: round(share, 4) for name, share in shares.items()},
                "regression ±": spread["regression"],
                "pass ±": spread["pass"],
            }


def main() -> None:
    """Simulate and report."""
    parser = arguments_of(__doc__)
    parser.add_argument("--repetitions", type=int, default=4_000)
    parser.add_argument(
        "--only", choices=("noise", "boundary", "power", "family", "repeats", "passages", "few")
    )
    options = parser.parse_args()
    report("gate_simulation", list(rows(options.repetitions, options.only)))


if __name__ == "__main__":
    main()
