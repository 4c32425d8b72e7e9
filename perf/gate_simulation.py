"""How often the gate is wrong, and how often it finds what is there: simulated pairs, through the gate's own tests.

    python -m perf.gate_simulation                       # perf/results/gate_simulation.json, about five minutes
    python -m perf.gate_simulation --repetitions 500 --only noise

Each row is a kind of pair, a number of questions, the share of answers that changed and a true drop; `regression`,
`pass` and `cannot tell` are shares of the repetitions, ± two standard errors of simulating. `bare` is how often a bare
threshold (observed drop above `max_drop`) would have said regression. All at an error rate of 5 %.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from math import sqrt
from typing import Any

import numpy as np

from perf.measuring import report
from regrade.comparing.verdict import by_interval, pass_p, regression_p
from regrade.stats.estimates import FloatArray
from regrade.stats.margins import PairedCounts, detectable_drop, paired_counts
from regrade.stats.significance import holm

ALPHA = 0.05
MMLU, GSM8K = 14_042, 1_319
Draw = Callable[[np.random.Generator], tuple[float, float, float]]
"""p of a regression, p of a pass, observed difference."""


@lru_cache(maxsize=1_000_000)
def _p_values(gained: int, lost: int, n: int, max_drop: float) -> tuple[float, float]:
    sums = np.repeat([1.0, -1.0], [gained, lost])
    counts = PairedCounts(gained, lost, n)
    return regression_p(counts, sums, max_drop), pass_p(counts, sums, max_drop)


def single(
    rng: np.random.Generator, *, n: int, changed: float, drop: float, max_drop: float
) -> tuple[float, float, float]:
    """One answer to each question: of all, `changed` differ between the two sides, losses more often by `drop`."""
    shares = [(changed - drop) / 2, (changed + drop) / 2, 1 - changed]
    gained, lost, _ = (int(one) for one in rng.multinomial(n, shares))
    return *_p_values(gained, lost, n, max_drop), (gained - lost) / n


def repeated(
    rng: np.random.Generator, *, n: int, repeats: int, drop: float, max_drop: float
) -> tuple[float, float, float]:
    """Several answers to each question at a temperature; every question has a chance of its own, lower by `drop`."""
    chance = rng.beta(2, 1, n) * (1 - drop) + drop  # at least `drop`, so that it can be taken away
    base, candidate = (rng.binomial(repeats, p, n) for p in (chance, chance - drop))
    return _clustered((candidate - base) / repeats, np.arange(n), repeats, max_drop)


def passages(
    rng: np.random.Generator, *, n: int, size: int, changed: float, drop: float, max_drop: float
) -> tuple[float, float, float]:
    """Questions of one passage that change together half of the time."""
    cluster = np.repeat(np.arange(n // size), size)
    shares = [(changed - drop) / 2, (changed + drop) / 2, 1 - changed]
    own = rng.choice([1.0, -1.0, 0.0], len(cluster), p=shares)
    common = rng.choice([1.0, -1.0, 0.0], n // size, p=shares)[cluster]
    change = np.where(rng.random(len(cluster)) < 0.5, own, common)
    return _clustered(change, cluster, 1, max_drop)


def _clustered(
    change: FloatArray, cluster: np.ndarray[Any, Any], scale: int, max_drop: float
) -> tuple[float, float, float]:
    counts = paired_counts(change, cluster)
    sums = np.bincount(cluster, weights=change * scale).astype(np.float64)
    p = regression_p(counts, sums, max_drop), pass_p(counts, sums, max_drop)
    return *p, float(change.mean())


def scenarios() -> Iterator[tuple[str, str, int, float, float, float, list[Draw]]]:
    """Yield kind, what, n, changed, drop, max_drop, and what draws each benchmark."""
    for n in (MMLU, GSM8K):
        for changed in (0.005, 0.05):
            for max_drop in (0.0, 0.01):
                draw = partial(single, n=n, changed=changed, drop=0.0, max_drop=max_drop)
                yield "noise", "two runs of one model", n, changed, 0.0, max_drop, [draw]
    for n, changed in ((MMLU, 0.015), (MMLU, 0.2), (GSM8K, 0.015), (GSM8K, 0.2), (300, 0.05)):
        draw = partial(single, n=n, changed=changed, drop=0.01, max_drop=0.01)
        yield "boundary", "a drop of just what is accepted", n, changed, 0.01, 0.01, [draw]
    for n, changed in ((MMLU, 0.05), (MMLU, 0.2), (GSM8K, 0.05), (GSM8K, 0.2)):
        expected = PairedCounts(changed * n / 2, changed * n / 2, n)
        drop = round(detectable_drop(expected, 0.01, ALPHA), 4)
        draw = partial(single, n=n, changed=changed, drop=drop, max_drop=0.01)
        yield "power", "the drop it says it finds", n, changed, drop, 0.01, [draw]
    for drop, what in ((0.0, "noise"), (0.01, "all at the boundary")):
        draws: list[Draw] = [
            partial(single, n=n, changed=0.05, drop=drop, max_drop=0.01)
            for n in (MMLU, GSM8K, GSM8K, 500)
        ]
        yield "family", f"4 benchmarks, {what}", MMLU, 0.05, drop, 0.01, draws
    for drop in (0.0, 0.01, 0.05):
        several = partial(repeated, n=500, repeats=4, drop=drop, max_drop=0.01)
        yield "repeats", "4 answers to each question", 500, float("nan"), drop, 0.01, [several]
        grouped = partial(passages, n=2_000, size=5, changed=0.1, drop=drop, max_drop=0.01)
        yield "passages", "5 questions to each passage", 2_000, 0.1, drop, 0.01, [grouped]


def simulate(draws: list[Draw], max_drop: float, repetitions: int, seed: int) -> dict[str, float]:
    """Return the shares of the verdicts on a family of benchmarks, and of a bare threshold."""
    rng = np.random.default_rng(seed)
    counts = {"regression": 0, "pass": 0, "cannot tell": 0, "bare": 0}
    for _ in range(repetitions):
        drawn = [draw(rng) for draw in draws]
        adjusted = holm([one[0] for one in drawn])
        verdicts = {by_interval(p, one[1], ALPHA) for p, one in zip(adjusted, drawn, strict=True)}
        overall = next(v for v in ("regression", "cannot tell", "pass") if v in verdicts)
        counts[overall] += 1
        counts["bare"] += any(one[2] < -max_drop for one in drawn)
    return {name: count / repetitions for name, count in counts.items()}


def rows(repetitions: int, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield one row for each scenario."""
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=4_000)
    parser.add_argument(
        "--only", choices=("noise", "boundary", "power", "family", "repeats", "passages")
    )
    options = parser.parse_args()
    report("gate_simulation", list(rows(options.repetitions, options.only)))


if __name__ == "__main__":
    main()
