"""Simulate how often the intervals of judged answers contain the truth.

    python -m perf.judged_intervals                      # perf/results/judged_intervals.json, about two minutes
    python -m perf.judged_intervals --simulations 500 --only share

A judge grades every answer; people label a random part. `judge alone` is the interval of the verdicts, as if they were the
truth; `people alone` that of the labels (Wilson); `corrected` the prediction-powered one (`corrected_mean`,
`corrected_difference`); `calibrated` Rogan and Gladen's with as many labelled answers from elsewhere. Each figure is the
share of simulations whose 95 % interval contains the truth, and the mean width. Two standard errors are at most 1.0 points at
95 % and 2,000 simulations. `bias` is the mean difference of the corrected figure from the truth, in
points, with its standard error.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from perf.measuring import arguments_of, report
from regrade.stats.corrected import (
    Calibration,
    LabelledVerdicts,
    corrected_difference,
    corrected_mean,
    rogan_gladen,
)
from regrade.stats.estimates import (
    Z_95,
    FloatArray,
    IntArray,
    clustered_standard_error,
    normal_interval,
    wilson_interval,
)

Interval = tuple[float, float]
Simulated = tuple[float, dict[str, Interval]]
"""The truth, the interval of each method, and the corrected figure as an interval `value` without width."""
SHARES = (
    (0.7, 0.95, 0.85, 1000, 200),
    (0.9, 0.95, 0.80, 1000, 100),
    (0.4, 0.90, 0.95, 1319, 300),
    (0.7, 0.80, 0.70, 500, 100),
    (0.5, 0.99, 0.99, 1000, 100),
    (0.97, 0.99, 0.80, 1000, 100),
    (0.7, 0.90, 0.80, 1000, 50),
    (0.7, 0.90, 0.80, 1000, 20),
    (0.9, 0.98, 0.95, 500, 12),
    (0.85, 0.99, 0.90, 164, 20),
    (0.95, 0.98, 0.90, 500, 30),
    (0.1, 0.98, 0.98, 500, 30),
    (0.9, 0.98, 0.90, 1000, 500),
)
"""True share, sensitivity, specificity, answers, labels."""
STEPS = ((0.15, 0.25, 0.60, 800, 100), (0.05, 0.15, 0.80, 800, 200))
"""True shares of the values 1, 2 and 3, answers, labels; the judge errs by a step in 30 % of the answers, more often upwards."""
REPEATS = ((200, 4, 120), (100, 8, 200))
"""Questions, answers to each, labels; judged 0 or 1."""
REFUSED = ((0.65, 0.045, 2000, 600, "all"), (0.65, 0.045, 2000, 600, "graded"))
"""True share, share of answers without a verdict, which are all wrong, answers, labels, and the answers they are a sample of."""
DIFFERENCES = (
    (1000, 100, "same"),
    (1000, 200, "same"),
    (1000, 200, "different"),
    (500, 100, "different"),
)
"""Questions, labels of each side, and whether both sides have labels of the same questions."""


def share(rng: np.random.Generator, row: tuple[Any, ...]) -> Simulated:
    """Simulate a share of right answers."""
    true, sensitivity, specificity, n, m = row
    right, verdict = _judged(rng, np.full(n, true), sensitivity, specificity)
    label = _labelled(rng, right, m)
    answers = LabelledVerdicts(verdict, label, np.arange(n))
    elsewhere, found = _judged(rng, np.full(m, true), sensitivity, specificity)
    is_right = elsewhere == 1
    calibration = Calibration(
        int(is_right.sum()),
        int(found[is_right].sum()),
        int((~is_right).sum()),
        int((1 - found[~is_right]).sum()),
    )
    calibrated = rogan_gladen(verdict, answers.cluster, calibration)
    intervals = _intervals(answers)
    if calibrated is not None:
        intervals["calibrated"] = calibrated[1:]
    return true, intervals


def steps(rng: np.random.Generator, row: tuple[Any, ...]) -> Simulated:
    """Simulate a mean of values from 1 to 3."""
    *shares, n, m = row
    value = rng.choice([1.0, 2.0, 3.0], n, p=shares)
    change = rng.choice([0.0, 1.0, -1.0], n, p=(0.7, 0.22, 0.08))
    verdict = np.clip(value + change, 1, 3)
    answers = LabelledVerdicts(verdict, _labelled(rng, value, m), np.arange(n), low=1.0, high=3.0)
    return float(np.dot([1, 2, 3], shares)), _intervals(answers)


def repeats(rng: np.random.Generator, row: tuple[Any, ...]) -> Simulated:
    """Simulate several answers to each question, of different difficulty; the judge errs on whole questions."""
    n, k, m = row
    difficulty = np.repeat(rng.beta(2.0, 1.0, n), k)
    hard = np.repeat(rng.random(n) < 0.2, k)  # questions that the judge does not understand
    right = (rng.random(n * k) < difficulty).astype(np.float64)
    verdict = np.where(hard, 1.0, right)
    answers = LabelledVerdicts(verdict, _labelled(rng, right, m), np.repeat(np.arange(n), k))
    return 2 / 3, _intervals(answers)


def refused(rng: np.random.Generator, row: tuple[Any, ...]) -> Simulated:
    """Simulate a judge that gives no verdict on a part of the wrong answers, with labels of all answers or of those with a verdict."""
    true, share_refused, n, m, sample = row
    right, verdict = _judged(rng, np.full(n, true), 0.9, 0.9)
    missing = (right == 0) & (rng.random(n) < share_refused / (1 - true))
    asked = rng.permutation(n if sample == "all" else np.flatnonzero(~missing))[:m]
    verdict = np.where(missing, verdict[~missing].mean(), verdict)
    unsampled = 0.0 if sample == "all" else float(missing.mean())
    answers = LabelledVerdicts(verdict, _at(right, asked), np.arange(n), unsampled=unsampled)
    return true, _intervals(answers)


def difference(rng: np.random.Generator, row: tuple[Any, ...]) -> Simulated:
    """Simulate two models under a judge that likes the candidate's style."""
    n, m, which = row
    difficulty = rng.uniform(0.2, 0.95, n)
    base, base_verdict = _judged(rng, difficulty, 0.95, 0.85)
    candidate, candidate_verdict = _judged(rng, difficulty + 0.05, 0.97, 0.70)
    first = rng.permutation(n)[:m]
    second = first if which == "same" else rng.permutation(n)[:m]
    left = LabelledVerdicts(base_verdict, _at(base, first), np.arange(n))
    right = LabelledVerdicts(candidate_verdict, _at(candidate, second), np.arange(n))
    corrected = corrected_difference(left, right)
    change = candidate_verdict - base_verdict
    error = clustered_standard_error(change, left.cluster)
    mean = float(change.mean())
    intervals = {"judge alone": (mean - Z_95 * error, mean + Z_95 * error)}
    if corrected is not None:
        intervals |= {"corrected": corrected.interval(), "value": (corrected.value,) * 2}
    return 0.05, intervals


KINDS: dict[str, tuple[Callable[..., Simulated], tuple[tuple[Any, ...], ...]]] = {
    "share": (share, SHARES),
    "steps": (steps, STEPS),
    "repeats": (repeats, REPEATS),
    "refused": (refused, REFUSED),
    "difference": (difference, DIFFERENCES),
}


def simulate(kind: str, row: tuple[Any, ...], simulations: int) -> dict[str, Any]:
    """Return the coverage and the mean width of each method's interval, and the bias of the corrected figure."""
    draw, _ = KINDS[kind]
    rng = np.random.default_rng(0)
    covered: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    errors: list[float] = []
    for _ in range(simulations):
        truth, intervals = draw(rng, row)
        for name, (low, high) in intervals.items():
            covered.setdefault(name, []).append(low <= truth <= high)
            widths.setdefault(name, []).append(high - low)
            if name == "value":
                errors.append(100 * (low - truth))
    result: dict[str, Any] = {"simulated": f"{kind} {' '.join(map(str, row))}"}
    for name in ("judge alone", "people alone", "corrected", "calibrated"):
        if name in covered:
            share_covered, width = float(np.mean(covered[name])), float(np.mean(widths[name]))
            result[name] = f"{100 * share_covered:.1f} %, {width:.3f}"
    result["bias"] = f"{np.mean(errors):+.2f} ± {np.std(errors) / len(errors) ** 0.5:.2f}"
    return result


def rows(simulations: int, only: str | None) -> Iterator[dict[str, Any]]:
    """Yield a row of the table for each simulated situation."""
    for kind, (_, situations) in KINDS.items():
        if only in (None, kind):
            for situation in situations:
                yield simulate(kind, situation, simulations)


def main() -> None:
    """Run the simulations and print the table."""
    parser = arguments_of(__doc__)
    parser.add_argument("--simulations", type=int, default=2_000)
    parser.add_argument("--only", choices=list(KINDS))
    arguments = parser.parse_args()
    report("judged_intervals", list(rows(arguments.simulations, arguments.only)))


def _judged(
    rng: np.random.Generator, probability: FloatArray, sensitivity: float, specificity: float
) -> tuple[FloatArray, FloatArray]:
    """Return who is right, and the verdicts of a judge."""
    right = rng.random(len(probability)) < probability
    draw = rng.random(len(probability))
    verdict = np.where(right, draw < sensitivity, draw < 1 - specificity)
    return right.astype(np.float64), verdict.astype(np.float64)


def _labelled(rng: np.random.Generator, truth: FloatArray, m: int) -> FloatArray:
    """Return the labels of a random part; NaN elsewhere."""
    return _at(truth, rng.permutation(len(truth))[:m])


def _at(truth: FloatArray, chosen: IntArray) -> FloatArray:
    label = np.full(len(truth), np.nan)
    label[chosen] = truth[chosen]
    return label


def _intervals(answers: LabelledVerdicts) -> dict[str, Interval]:
    error = clustered_standard_error(answers.verdict, answers.cluster)
    known = answers.label[~np.isnan(answers.label)]
    mean = float(answers.verdict.mean())
    intervals: dict[str, Interval] = {"judge alone": (mean - Z_95 * error, mean + Z_95 * error)}
    if answers.high == 1.0 and len(np.unique(answers.cluster)) == len(answers.cluster):
        intervals["judge alone"] = normal_interval(mean, error)
        intervals["people alone"] = wilson_interval(float(known.sum()), len(known))
    corrected = corrected_mean(answers)
    if corrected is not None:
        intervals |= {"corrected": corrected.interval(), "value": (corrected.value,) * 2}
    return intervals


if __name__ == "__main__":
    main()
