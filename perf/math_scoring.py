"""Scoring of 10,000 mathematical answers, one in a hundred of them hostile: the scorer `math`, and math-verify in the same process.

`python -m perf.math_scoring` scores all answers with `math`, and then the first `--naive N` of them as its README shows, one after
the other with its own time-outs. Prints the time, and how many answers each calls right, wrong or undecided.
"""

import logging
import os
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
from math_verify import parse, verify
from rich.progress import track

from perf.code_scoring import outcomes
from perf.measuring import arguments_of
from regrade.records import Completion, Sample
from regrade.records.columns import GENERATION_SCHEMA, generation_row
from regrade.scorers.math import MathScorer
from regrade.settings import ScoringOptions
from tests.scorers.batches import CONTEXT

ANSWERS = 10_000
HOSTILE_SHARE = 0.01
HOSTILE = (
    "9999999999^{9999999999}",
    "10^{10^{10}}",
    "2^{2^{2^{2^{2^2}}}}",
    "100000000!",
    "(" * 300 + "1" + ")" * 300,
    "1" * 200_000,
    r"\frac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}",
)
KINDS = (
    ("{n}", "{n}"),
    (r"\frac{{{n}}}{{7}}", "{n}/7"),
    (r"{n}\sqrt{{2}}", r"\sqrt{{{double}}}"),
    (r"\left({n}, \frac{{\pi}}{{2}}\right)", r"({n}, \pi/2)"),
    ("x^2+{n}x", "x(x+{n})"),
    (r"[0,{n})", r"0 \le x < {n}"),
    (r"\{{1,{n}\}}", "{n}, 1"),
)


def answers(count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return pairs of target and answer: half of the usual ones right, all different, and hostile ones among them."""
    pairs = []
    for number in range(count):
        if rng.random() < HOSTILE_SHARE:
            pairs.append(("3", rf"So \boxed{{{HOSTILE[number % len(HOSTILE)]}}}"))
            continue
        target, answer = KINDS[number % len(KINDS)]
        given = number + 2 + int(rng.random() < 0.5)
        pairs.append(
            (
                target.format(n=number + 2),
                rf"Thus $\boxed{{{answer.format(n=given, double=2 * given * given)}}}$.",
            )
        )
    return pairs


def score(pairs: list[tuple[str, str]]) -> Counter[str]:
    """Score all pairs with `math`, in the pieces in which stored answers are scored."""
    rows = [
        generation_row(
            Sample(str(number), number, target, {}),
            0,
            Completion(number, prompt="?", text=text, finish_reason="stop"),
        )
        for number, (target, text) in enumerate(pairs)
    ]
    batch = pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA).combine_chunks().to_batches()[0]
    context = replace(CONTEXT, options=ScoringOptions(processes=os.cpu_count() or 1))
    with MathScorer().session(context) as scored:
        return outcomes(scored, batch)


def score_naively(pairs: list[tuple[str, str]]) -> Counter[str]:
    """Score all pairs as the README of math-verify shows."""
    logging.disable(logging.CRITICAL)
    found: Counter[str] = Counter()
    for target, text in track(pairs, "in process"):
        found["right" if verify(parse(f"${target}$"), parse(text)) else "wrong"] += 1
    return found


def main() -> None:
    """Print times and outcomes."""
    parser = arguments_of(__doc__)
    parser.add_argument("--answers", type=int, default=ANSWERS)
    parser.add_argument("--naive", type=int, default=ANSWERS // 10)
    options = parser.parse_args()
    pairs = answers(options.answers, np.random.default_rng(0))
    for name, some, function in (
        ("math", pairs, score),
        ("in process", pairs[: options.naive], score_naively),
    ):
        started = time.perf_counter()
        found = function(some)
        seconds = time.perf_counter() - started
        print(f"{name}: {len(some):,} answers in {seconds:.1f} s, {dict(sorted(found.items()))}")


if __name__ == "__main__":
    main()
