"""Simulate `--stop-when-sure`: rates of its verdicts, and the share of the questions that it needs.

    python -m perf.sequential_gate                    # perf/results/sequential_gate.json, about fifteen minutes
    python -m perf.sequential_gate --repetitions 200 --only boundary

Each row draws paired changes, asks them in a random order, and stops when a verdict is sure; if none is, the tests of all
questions decide with the rest of the error rate. `regression` and `pass` are shares of the repetitions; `stopped` those that
stopped early; `questions` is the median share of the questions asked, `mean` their mean share, and `9 of 10` the share that is enough in nine of ten
repetitions. `gate` is how often the gate gives the more frequent of these verdicts on all answers, without stopping.
`without replacement` is how often the same bets on the mean of just these questions say `regression`: at the boundary it breaks the
gate's promise, which is about such questions. The error rate is 5 %.

`passages` have several questions each, and half of the changes are common to a passage. `prefixes` is how often the beginning that the
questions of a passage share is computed, per passage, if an engine keeps it until the next one. `by passage` is how often the same
test stops if a passage is one observation, after `passages` of them on average.

`real` are answers of real models to GSM8K (`../shared/data`), permuted. With `max_drop` equal to their drop, each verdict is wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from perf.gate_simulation import ALPHA, GSM8K, MMLU, few_changes, passage_changes
from perf.measuring import arguments_of, report
from regrade.answers.local import LocalRepository
from regrade.comparing.together import compare_sides
from regrade.exchange.importing.base import Columns, TableOptions
from regrade.exchange.importing.building import Names
from regrade.exchange.importing.importer import import_files
from regrade.stats.decision import paired_changes, pass_p, regression_p
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.sequential import (
    SequentialTest,
    Sure,
    decided,
    final_rate,
    request_order,
    running_level,
)

DATA = Path(__file__).parents[2] / "shared" / "data" / "generations"
PAIRS = (
    ("6b_verification", "6b_finetuning"),
    ("Qwen2-7B-Instruct", "Mixtral-8x7B-Instruct-v0.1"),
    ("Meta-Llama-3-8B-Instruct", "Mixtral-8x7B-Instruct-v0.1"),
    ("Meta-Llama-3-8B-Instruct", "Qwen2-7B-Instruct"),
)
"""Baselines and candidates."""
PASSAGES = {"4 questions each": (4,), "1 to 8 questions each": (1, 1, 2, 2, 3, 4, 5, 6, 8, 8)}
"""Numbers of questions about a passage, 4 on average."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Paired answers, in a random order."""

    change: FloatArray
    """Candidate minus baseline."""
    base: FloatArray | None = None
    """Baseline, if each question has one right or wrong answer."""
    scale: int = 1
    """Answers per question."""
    passage: IntArray | None = None
    """Number of each question's passage; the numbers are in a random order. None: each question stands alone."""


Draw = Callable[[np.random.Generator], Drawn]


def single(rng: np.random.Generator, *, n: int, changed: float, drop: float) -> Drawn:
    """One answer per question: the share `changed` differs between the sides, with `drop` more losses than gains."""
    shares = [(changed + drop) / 2, (changed - drop) / 2, 1 - changed]
    change = rng.choice([-1.0, 1.0, 0.0], n, p=shares)
    return Drawn(change, _base(rng, change))


def passages(
    rng: np.random.Generator, *, n: int, sizes: tuple[int, ...], changed: float, drop: float
) -> Drawn:
    """Questions about passages; see `perf.gate_simulation.passage_changes`."""
    of_passages = rng.permutation(np.resize(sizes, n * len(sizes) // sum(sizes)))
    change, passage = passage_changes(rng, of_passages, changed, drop)
    order = rng.permutation(len(change))
    return Drawn(change[order], _base(rng, change[order]), passage=passage[order])


def _base(rng: np.random.Generator, change: FloatArray) -> FloatArray:
    """Return answers of the baseline that can change so, most of them right."""
    return np.where(change == 0, rng.random(len(change)) < 0.7, change < 0).astype(np.float64)


def repeated(rng: np.random.Generator, *, n: int, repeats: int, drop: float, shape: str) -> Drawn:
    """Several answers per question; see `perf.gate_simulation.few_changes`."""
    change = few_changes(rng, n=n, repeats=repeats, drop=drop, shape=shape)  # type: ignore[arg-type]
    return Drawn(change, scale=repeats)


def graded(rng: np.random.Generator, *, n: int, drop: float) -> Drawn:
    """Grades from 0 to 1 in steps of 0.05, of which the candidate's are lower by `drop` on average."""
    quality = rng.beta(3, 2, n) * (1 - drop) + drop
    base, candidate = (rng.binomial(20, chance) / 20 for chance in (quality, quality - drop))
    return Drawn(np.rint(20 * (candidate - base)) / 20)


def permuted(rng: np.random.Generator, *, base: FloatArray, candidate: FloatArray) -> Drawn:
    """The same answers in another order."""
    order = rng.permutation(len(base))
    return Drawn((candidate - base)[order], base[order])


def stop(drawn: Drawn, max_drop: float, tests: int = 1) -> tuple[Sure | None, int]:
    """Return the verdict and the number of questions asked for it, as `--stop-when-sure` decides."""
    n, rest = len(drawn.change), final_rate(ALPHA)
    level, at_end = running_level(ALPHA), {"regression": rest / tests, "pass": rest}
    test = SequentialTest(max_drop, running_level(ALPHA, tests), level)
    test.add(drawn.change)
    found, asked = test.verdict, test.n
    if drawn.base is not None:
        certain, first = _curtailed(drawn.change, drawn.base, asked, max_drop, at_end)
        if certain is not None and first < asked:
            return certain, first
    return (found, asked) if found is not None else (_of_all(drawn, max_drop, at_end), n)


def _curtailed(
    change: FloatArray, base: FloatArray, most: int, max_drop: float, levels: dict[str, float]
) -> tuple[Sure | None, int]:
    """Return the verdict that the rest cannot change, and the first number of answers with it, up to `most`, by bisection."""

    def certain(asked: int) -> Sure | None:
        left = base[asked:]
        return decided(
            int((change[:asked] > 0).sum()),
            int((change[:asked] < 0).sum()),
            len(change),
            can_gain=int((left == 0).sum()),
            can_lose=int((left == 1).sum()),
            max_drop=max_drop,
            regression_level=levels["regression"],
            pass_level=levels["pass"],
        )

    if certain(most) is None:
        return None, most
    low, high = 0, most  # the verdict is certain at `high`, and not at `low`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if certain(middle) else (middle, high)
    return certain(high), high


def _of_all(drawn: Drawn, max_drop: float, levels: dict[str, float]) -> Sure | None:
    changes = paired_changes(drawn.change, np.arange(len(drawn.change)), drawn.scale)
    if regression_p(changes, max_drop) < levels["regression"]:
        return "regression"
    return "pass" if pass_p(changes, max_drop) < levels["pass"] else None


def without_replacement(change: FloatArray, max_drop: float) -> bool:
    """Return True if bets on the mean of just these questions find it below `-max_drop`, at the level of the running test.

    Waudby-Smith and Ramdas 2024, section 5: the hypothesis' mean of the questions left follows from those asked.
    """
    n, asked = len(change), np.arange(len(change))
    left = -max_drop * n - np.concatenate([[0.0], np.cumsum(change)[:-1]])
    expected = left / (n - asked)
    if (expected > 1 + 1e-9).any():
        return True
    bets = np.geomspace(0.05, 0.95, 8)[:, None] / np.maximum(1 - expected, 1e-9)
    wealth = np.cumsum(np.log1p(bets * np.clip(expected - change, -1e9, None)), axis=1)
    level = running_level(ALPHA)
    return bool((np.logaddexp.reduce(wealth) - np.log(8) >= -np.log(level)).any())


def prefixes(passage: IntArray, asked: int) -> float:
    """Return how often the beginning of a passage is computed, per passage, with `asked` questions in the order of their requests."""
    place = np.argsort(np.argsort(passage, kind="stable"))  # in a benchmark, neighbours share one
    requested = np.sort(passage)[request_order(place.tolist())][:asked]
    return (1 + np.count_nonzero(np.diff(requested))) / len(np.unique(passage))


def by_passage(drawn: Drawn, passage: IntArray, max_drop: float) -> tuple[Sure | None, float]:
    """Return the verdict of the running test with a passage as one observation, and the share of the passages that it needs.

    The observation is the sum of all changes and accepted drops, divided by the most questions of a passage: then it is in
    [-1, 1], and its expectation is 0 at the boundary, however the questions of a passage depend on each other.
    """
    questions = np.bincount(passage)
    most = questions.max()
    test = SequentialTest(max_drop, running_level(ALPHA), running_level(ALPHA))
    test.add((np.bincount(passage, drawn.change) + max_drop * questions) / most - max_drop)
    return test.verdict, test.n / len(questions)


def scenarios() -> Iterator[tuple[str, str, float, float, list[Draw]]]:
    """Yield kind, description, max_drop, true drop, and a function per benchmark that draws its answers."""
    for n, changed in ((MMLU, 0.015), (MMLU, 0.1), (GSM8K, 0.015), (GSM8K, 0.1), (300, 0.05)):
        draw = partial(single, n=n, changed=changed, drop=0.01)
        yield "boundary", f"{n:,} questions, {100 * changed:g} % change", 0.01, 0.01, [draw]
    draws: list[Draw] = [
        partial(single, n=n, changed=0.05, drop=0.01) for n in (MMLU, GSM8K, GSM8K, 500)
    ]
    yield "boundary", "4 benchmarks, 5 % change", 0.01, 0.01, draws
    for shape in ("even", "lost"):
        several = partial(repeated, n=200, repeats=4, drop=0.05, shape=shape)
        yield "boundary", f"200 questions with 4 answers, {shape}", 0.05, 0.05, [several]
    yield "boundary", "1,000 graded answers", 0.01, 0.01, [partial(graded, n=1_000, drop=0.01)]
    for changed in (0.005, 0.05):
        same = partial(single, n=MMLU, changed=changed, drop=0.0)
        yield "unchanged", f"{MMLU:,} questions, {100 * changed:g} % change", 0.01, 0.0, [same]
    same = partial(single, n=GSM8K, changed=0.005, drop=0.0)
    yield "unchanged", f"{GSM8K:,} questions, 0.5 % change", 0.01, 0.0, [same]
    for n, changed, drop in ((MMLU, 0.2, 0.03), (GSM8K, 0.2, 0.08), (300, 0.3, 0.2)):
        worse = partial(single, n=n, changed=changed, drop=drop)
        yield "worse", f"{n:,} questions, {100 * changed:g} % change", 0.01, drop, [worse]
    several = partial(repeated, n=200, repeats=4, drop=0.2, shape="even")
    yield "worse", "200 questions with 4 answers, even", 0.05, 0.2, [several]
    yield "worse", "1,000 graded answers", 0.01, 0.05, [partial(graded, n=1_000, drop=0.05)]
    for name, base, candidate in real_pairs():
        drop = float((base - candidate).mean())
        pair = partial(permuted, base=base, candidate=candidate)
        yield "real", name, 0.01, drop, [pair]
        if drop > 0:
            yield "boundary", f"real: {name}", drop, drop, [pair]
    for what, sizes in PASSAGES.items():
        for changed, drop in ((0.1, 0.01), (0.005, 0.0), (0.05, 0.0), (0.2, 0.08)):
            shared = partial(passages, n=5_000, sizes=sizes, changed=changed, drop=drop)
            yield "passages", f"{what}, {100 * changed:g} % change", 0.01, drop, [shared]


def real_pairs() -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Yield names and values of pairs of real models on GSM8K; none without the folder."""
    if not DATA.is_dir():
        return
    with TemporaryDirectory() as folder:
        repository = LocalRepository(Path(folder) / "answers")
        import_files(repository, sorted((DATA / "zeroeval-gsm").glob("*.json.gz")))
        for model in ("6b_verification", "6b_finetuning"):
            columns = Columns(question="question", target="ground_truth", text=f"{model}.solution")
            names = Names(model=model, benchmark="gsm8k")
            path = DATA / "openai-gsm8k" / "solutions.jsonl"
            import_files(repository, [path], table=TableOptions(columns, "A:"), names=names)
        for base, candidate in PAIRS:
            (compared,) = compare_sides(base, candidate, answers=repository.uri).compared.values()
            yield f"{base} -> {candidate}", compared.pairs.base, compared.pairs.candidate


def simulate(draws: list[Draw], max_drop: float, repetitions: int, seed: int) -> dict[str, float]:
    """Return shares of the verdicts on several benchmarks, and the share of questions asked."""
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(("regression", "pass", "stopped", "finite", "by passage"), 0)
    of_gate = {"regression": 0, "pass": 0}
    shares = []
    passages_asked, prefixes_computed = [], []
    full = {"regression": ALPHA, "pass": ALPHA}
    for _ in range(repetitions):
        drawn = [draw(rng) for draw in draws]
        stops = [stop(answers, max_drop, len(draws)) for answers in drawn]
        verdicts = [verdict for verdict, _ in stops]
        total = sum(len(answers.change) for answers in drawn)
        asked = sum(n for _, n in stops)
        shares.append(asked / total)
        counts["stopped"] += asked < total
        if "regression" in verdicts:
            counts["regression"] += 1
        elif set(verdicts) == {"pass"}:
            counts["pass"] += 1
        if len(draws) == 1:
            found = _of_all(drawn[0], max_drop, full)
            if found is not None:
                of_gate[found] += 1
            counts["finite"] += without_replacement(drawn[0].change, max_drop)
            if (passage := drawn[0].passage) is not None:
                prefixes_computed.append(prefixes(passage, asked))
                found, share = by_passage(drawn[0], passage, max_drop)
                passages_asked.append(share)
                counts["by passage"] += found is not None
    shared = {}
    if passages_asked:
        shared = {
            "prefixes": float(np.mean(prefixes_computed)),
            "by passage": counts["by passage"] / repetitions,
            "passages": float(np.mean(passages_asked)),
        }
    frequent = max(("regression", "pass"), key=counts.__getitem__)
    return {
        "regression": counts["regression"] / repetitions,
        "pass": counts["pass"] / repetitions,
        "stopped": counts["stopped"] / repetitions,
        "questions": float(np.median(shares)),
        "mean": float(np.mean(shares)),
        "9 of 10": float(np.quantile(shares, 0.9)),
        "gate": of_gate[frequent] / repetitions if len(draws) == 1 else float("nan"),
        "without replacement": counts["finite"] / repetitions if len(draws) == 1 else float("nan"),
        **shared,
    }


def rows(repetitions: int, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield a row per scenario; shares in percent."""
    for seed, (kind, what, max_drop, drop, draws) in enumerate(scenarios()):
        if only in (None, kind):
            found = simulate(draws, max_drop, repetitions, seed)
            yield {
                "kind": kind,
                "what": what,
                "max_drop": round(100 * max_drop, 2),
                "drop": round(100 * drop, 2),
                "repetitions": repetitions,
                **{name: round(100 * share, 1) for name, share in found.items()},
            }


def main() -> None:
    """Simulate and report."""
    parser = arguments_of(__doc__)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--only", choices=("boundary", "unchanged", "worse", "passages", "real"))
    options = parser.parse_args()
    report("sequential_gate", list(rows(options.repetitions, options.only)))


if __name__ == "__main__":
    main()
