"""Compare the search of `regrade tune` with a full grid and with Optuna's TPE, on synthetic surfaces.

    pip install --target /tmp/optuna 'optuna==4.5.0'
    PYTHONPATH=/tmp/optuna python -m perf.tune_simulation --surfaces 100

Each surface gives a rate for requests in flight (8 to 1,024), tokens of a step (2,048 to 32,768) and tensor parallel size (1 to 8):
160 settings. The place of the top, the fall behind it and the weight of each setting are drawn at random; each measurement has 2 %
noise. Reported is the true rate of what was chosen, as a share of the best of all 160 settings.

- `tune`: `regrade.tuning.search.search` with 1 to 4 starts. Requests in flight cost no start. `plan knows`: the best split is the first
  that `regrade plan` proposes; `plan is one off`: it is the second; `no plan`: in the order 1, 2, 4, 8.
- `TPE`: Optuna's sampler, for which every trial is a start, as in other tools; and `TPE, ladder inside`: each trial is a start
  whose requests in flight are searched as by `tune`.
"""

# ruff: noqa: PLC0415 - Optuna is not a dependency

import argparse
import importlib.util
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log2
from statistics import median
from typing import Any

from perf.measuring import report
from regrade.tuning.search.search import TOKENS, Split, search
from regrade.tuning.search.trials import Rung

IN_FLIGHT = (8, 16, 32, 64, 128, 256, 512, 1024)
BATCHED = (2048, 4096, 8192, 16384, 32768)
PARALLEL = (1, 2, 4, 8)
DEFAULT_TOKENS = 8192
NOISE = 0.02


@dataclass(frozen=True)
class Surface:
    """A machine and a model: the rate of each setting, without noise."""

    top: float
    """Requests in flight that are fastest."""
    fall: float
    """Loss behind the top, for each doubling, as a share."""
    tokens: float
    """Tokens of a step that are fastest."""
    parallel: int
    weight: float
    """Loss for each halving or doubling of the tensor parallel size, as a share."""

    def rate(self, in_flight: int, tokens: int, parallel: int) -> float:
        """Return the true rate of a setting."""
        x = in_flight / self.top
        rate = 2 * x / (1 + x) if x < 1 else 1 - self.fall * log2(x) / 4
        rate *= 1 - 0.12 * abs(log2(tokens / self.tokens)) / 3
        rate *= 1 - self.weight * abs(log2(parallel / self.parallel)) / 3
        return max(0.01, rate)

    @property
    def best(self) -> float:
        """Rate of the best of all settings."""
        return max(self.rate(k, b, t) for k in IN_FLIGHT for b in BATCHED for t in PARALLEL)


def surface(seed: int) -> Surface:
    """Return a random surface."""
    draw = random.Random(seed)
    return Surface(
        2 ** draw.uniform(4, 9),
        draw.uniform(0, 0.35),
        2 ** draw.uniform(11, 15),
        draw.choice(PARALLEL),
        draw.uniform(0.05, 0.5),
    )


@dataclass
class Machine:
    """Engines on a surface, with noise."""

    surface: Surface
    noise: random.Random
    trials: int = 0

    @contextmanager
    def start(self, settings: Mapping[str, int]) -> Iterator["_Engine"]:
        """Start an engine."""
        yield _Engine(self, settings.get(TOKENS, DEFAULT_TOKENS), settings["tensor_parallel_size"])

    def measure(self, in_flight: int, tokens: int, parallel: int) -> float:
        """Return a rate with noise."""
        self.trials += 1
        return self.surface.rate(in_flight, tokens, parallel) * (1 + self.noise.gauss(0, NOISE))


@dataclass
class _Engine:
    machine: Machine
    batched_tokens: int
    parallel: int
    most_in_flight: int = IN_FLIGHT[-1]

    def measure(self, in_flight: int) -> Rung:
        rate = self.machine.measure(in_flight, self.batched_tokens, self.parallel)
        return Rung(in_flight, rate, 32, 1.0)


def tuned(surface: Surface, seed: int, starts: int, order: Sequence[int]) -> tuple[float, int, int]:
    """Return the true rate of what `tune` chooses as a share of the best, its starts and its measurements."""
    machine = Machine(surface, random.Random(seed))
    splits = [Split({"tensor_parallel_size": size}) for size in order]
    found = search(machine.start, splits, most_starts=starts)
    chosen = found.best()
    if chosen is None:
        raise RuntimeError("every surface has a best setting")
    tokens = min(max(chosen.settings[TOKENS], BATCHED[0]), BATCHED[-1])
    rate = surface.rate(chosen.in_flight, tokens, chosen.settings["tensor_parallel_size"])
    return rate / surface.best, found.starts, machine.trials


def by_tpe(surface: Surface, seed: int, starts: int, *, ladder: bool) -> tuple[float, int, int]:
    """Return the same for Optuna's TPE, with a start per trial."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    machine = Machine(surface, random.Random(seed))

    def objective(trial: Any) -> float:  # noqa: ANN401 - Optuna's type
        tokens = trial.suggest_categorical("tokens", BATCHED)
        parallel = trial.suggest_categorical("parallel", PARALLEL)
        if not ladder:
            in_flight = trial.suggest_categorical("in_flight", IN_FLIGHT)
            return machine.measure(in_flight, tokens, parallel)
        rates = {k: machine.measure(k, tokens, parallel) for k in IN_FLIGHT}
        top = max(rates, key=lambda k: rates[k])
        trial.set_user_attr("in_flight", top)
        return rates[top]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=starts)
    best = study.best_trial
    in_flight = best.user_attrs.get("in_flight") or best.params["in_flight"]
    rate = surface.rate(in_flight, best.params["tokens"], best.params["parallel"])
    return rate / surface.best, starts, machine.trials


def row(name: str, runs: list[tuple[float, int, int]]) -> dict[str, Any]:
    """Return a row of the table: median, 10 % quantile, share within 5 %, starts and measurements."""
    shares = sorted(share for share, _, _ in runs)
    return {
        "search": name,
        "starts": f"{sum(starts for _, starts, _ in runs) / len(runs):.1f}",
        "measurements": f"{sum(trials for _, _, trials in runs) / len(runs):.1f}",
        "median of best": f"{median(shares):.3f}",
        "10 % quantile": f"{shares[len(shares) // 10]:.3f}",
        "within 5 %": f"{100 * sum(share >= 0.95 for share in shares) / len(shares):.0f} %",
    }


def orders(surface: Surface) -> dict[str, list[int]]:
    """Return the order of splits that each kind of plan proposes."""
    near = sorted(PARALLEL, key=lambda size: abs(log2(size / surface.parallel)))
    return {
        "plan knows": near,
        "plan is one off": [near[1], near[0], *near[2:]],
        "no plan": list(PARALLEL),
    }


def main() -> None:
    """Simulate and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--surfaces", type=int, default=100)
    options = parser.parse_args()
    surfaces = [surface(seed) for seed in range(options.surfaces)]

    rows = []
    for starts, name in ((4, "plan knows"), (4, "plan is one off"), (4, "no plan"), (8, "no plan")):
        runs = [tuned(s, seed, starts, orders(s)[name]) for seed, s in enumerate(surfaces)]
        rows.append(row(f"tune, {name}", runs))
    if importlib.util.find_spec("optuna") is None:
        sys.stderr.write(
            "Optuna is not installed, so that TPE is left out; see the head of this file.\n"
        )
    else:
        for name, ladder, starts in (
            *(("TPE", False, starts) for starts in (4, 8, 20, 40)),
            *(("TPE, ladder inside", True, starts) for starts in (4, 8)),
        ):
            runs = [by_tpe(s, seed, starts, ladder=ladder) for seed, s in enumerate(surfaces)]
            rows.append(row(name, runs))
    report("tune_simulation", rows)


if __name__ == "__main__":
    main()
