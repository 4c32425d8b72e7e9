"""Time of scoring programs: questions of HumanEval+'s size, ten answers each, in bubblewrap.

`python -m perf.code_scoring [--questions 164] [--answers 10] [--inputs 764] [--sandbox bwrap]`

The questions are made here: functions over lists, each with as many inputs as HumanEval+ has on average (764 per question,
https://arxiv.org/abs/2305.01210). Of the answers 70 % are right, 24 % wrong, 5 % raise and 1 % never end; no two are equal.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from rich.progress import track

from perf.measuring import arguments_of
from regrade.records import Completion, Sample
from regrade.records.columns import GENERATION_SCHEMA, generation_row
from regrade.scorers import load_scorer
from regrade.scorers.base import PROMPT_FORMAT, SHARED_COLUMNS
from regrade.scorers.sessions import SessionScorer
from regrade.scoring.score import PIECE_ROWS
from regrade.settings import ScoringOptions
from tests.scorers.batches import CONTEXT

COMPARED = """\
import numpy as np

def assertion(out, exp, atol):
    same = out == exp
    if not same and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert same

"""


def question(number: int, inputs: int) -> Sample:
    """Return a question whose function adds a number to all elements of a list and sums them."""
    given = [[[n % 17, n % 5, n, -n % 101]] for n in range(inputs)]
    results = [sum(x + number for x in numbers) for [numbers] in given]
    loop = "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, 0)\n"
    check = (
        f"{COMPARED}def check(candidate):\n    inputs = {given}\n    results = {results}\n{loop}"
    )
    base = f"def check(candidate):\n    assert candidate([1, 2]) == {3 + 2 * number}\n"
    doc: dict[str, Any] = {
        "function": "total",
        "has_check": True,
        "tests": [{"name": "base", "source": base}, {"name": "plus", "source": check}],
    }
    return Sample(f"q{number}", number, "", {}, doc=doc)


def answer(number: int, repeat: int, position: int) -> str:
    """Return an answer: 1 of 100 never ends, 5 raise, 24 are wrong, the others are right."""
    kind = position * 37 % 100
    body = f"return sum(x + {number} for x in numbers)"
    if kind == 0:
        body = "while True: pass"
    elif kind < 6:
        body = "raise ValueError(numbers)"
    elif kind < 30:
        body = f"return sum(x + {number} for x in numbers[:3])"
    source = f"def total(numbers):\n    '''Answer {repeat} to {number}.'''\n    {body}"
    return f"Here it is:\n```python\n{source}\n```"


def outcomes(score: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch) -> Counter[str]:
    """Score answers in the pieces in which stored ones are scored, and count the outcomes."""
    found: Counter[str] = Counter()
    for start in track(range(0, len(batch), PIECE_ROWS), "scoring"):
        for row in score(batch.slice(start, PIECE_ROWS)).to_pylist():
            wrong = "wrong" if row["outcome"] == "scored" else str(row["outcome"])
            found["right" if row["value"] == 1 else wrong] += 1
    return found


def main() -> None:
    """Score the answers and print the time."""
    parser = arguments_of(__doc__)
    parser.add_argument("--questions", type=int, default=164)
    parser.add_argument("--answers", type=int, default=10)
    parser.add_argument("--inputs", type=int, default=764)
    parser.add_argument("--sandbox", choices=("bwrap", "landlock"), default="bwrap")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number in range(options.questions):
        sample = question(number, options.inputs)
        for repeat in range(options.answers):
            text = answer(number, repeat, len(rows))
            completion = Completion(repeat, prompt="?", text=text, finish_reason="stop")
            rows.append(generation_row(sample, repeat, completion))
    batch = pa.RecordBatch.from_pylist(rows, schema=GENERATION_SCHEMA)
    batch = batch.select([*SHARED_COLUMNS, "text", "doc"])
    batch = batch.append_column(PROMPT_FORMAT, pa.repeat(pa.scalar("chat"), len(batch)))
    scorer = load_scorer("code")
    if not isinstance(scorer, SessionScorer):
        raise TypeError("the scorer 'code' is not opened")
    started = time.monotonic()
    context = replace(CONTEXT, options=ScoringOptions(sandbox=options.sandbox))
    with scorer.session(context) as score:
        opened = time.monotonic() - started
        found = outcomes(score, batch)
    seconds = time.monotonic() - started
    print(
        f"{len(batch)} programs in {seconds:.1f} s ({1000 * seconds / len(batch):.0f} ms each, of which {opened:.1f} s to open "
        f"and test the sandbox): {dict(found)}"
    )


if __name__ == "__main__":
    main()
