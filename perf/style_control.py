"""Simulate judges that like length or style, and the wins of pairs with both held equal (`regrade.stats.bias.controlled_wins`).

    python -m perf.style_control                    # 400 draws of each situation
    python -m perf.style_control --simulations 2000

A judge prefers the candidate by its quality and by the difference of a trait, (a - b) / (a + b). The true wins are those between
answers that are alike. docs/judging-labels.md has the result.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from perf.measuring import arguments_of, report
from regrade.stats.bias import controlled_wins


class Judge(NamedTuple):
    """A simulated judge of pairs."""

    questions: int
    better: float
    """Log odds of a win of the candidate over an answer that is alike; 0: as good."""
    by_length: float
    """Log odds that it adds for the difference in length."""
    by_lists: float = 0.0
    """The same for the number of list items."""
    ties: float = 0.0
    """Share of pairs that it calls equal."""


JUDGES = (
    Judge(500, better=0.0, by_length=2.0),
    Judge(805, better=0.4, by_length=2.0),
    Judge(805, better=0.0, by_length=4.0),
    Judge(805, better=0.4, by_length=2.0, by_lists=1.0),
    Judge(805, better=0.4, by_length=2.0, ties=0.2),
    Judge(805, better=0.4, by_length=0.0),
)


def simulate(judge: Judge, simulations: int) -> dict[str, Any]:
    """Return a row of the table: errors in points, and how often the intervals hold the true wins."""
    rng = np.random.default_rng(0)
    truth = (1 - judge.ties) * float(expit(judge.better)) + judge.ties / 2
    errors: dict[str, list[float]] = {"raw": [], "length": [], "style": []}
    covered: dict[str, list[bool]] = {"length": [], "style": []}
    for _ in range(simulations):
        candidate, baseline = rng.integers(1, 400, (2, judge.questions, 4))
        candidate[:, 0] += 150  # it writes longer answers, with more lists
        candidate[:, 2] += 100
        unlike = (candidate - baseline) / (candidate + baseline)
        odds = judge.better + judge.by_length * unlike[:, 0] + judge.by_lists * unlike[:, 2]
        wins = (rng.random(judge.questions) < expit(odds)).astype(np.float64)
        wins[rng.random(judge.questions) < judge.ties] = 0.5
        found = controlled_wins(wins, candidate, baseline, np.arange(judge.questions))
        assert found is not None  # noqa: S101 - there are enough questions
        errors["raw"].append(float(wins.mean()) - truth)
        for name, estimate in (("length", found.length), ("style", found.style)):
            assert estimate is not None  # noqa: S101 - no trait decides every pair
            value, low, high = estimate.value, estimate.low, estimate.high
            assert value is not None and low is not None and high is not None  # noqa: PT018, S101
            errors[name].append(value - truth)
            covered[name].append(low <= truth <= high)
    means = {name: f"{100 * float(np.mean(values)):+.2f}" for name, values in errors.items()}
    shares = {
        f"{name} covered": f"{100 * float(np.mean(values)):.1f} %"
        for name, values in covered.items()
    }
    return {**judge._asdict(), "true wins": f"{100 * truth:.1f} %", **means, **shares}


def main() -> None:
    """Run the simulations and print the table."""
    parser = arguments_of(__doc__)
    parser.add_argument("--simulations", type=int, default=400)
    simulations = parser.parse_args().simulations
    report("style_control", [simulate(judge, simulations) for judge in JUDGES])


if __name__ == "__main__":
    main()
