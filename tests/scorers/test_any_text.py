"""Any text, any scorer: answers that models gave, cut, repeated and mixed at random. No exception, bounded time and memory."""

import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import pytest

from regrade.records.columns import SCORE_SCHEMA
from regrade.records.rubrics import RUBRICS, open_rubric
from regrade.records.rubrics.facts import rubric_facts
from regrade.records.rubrics.reading import read_verdict
from regrade.records.tools import calls_text
from regrade.scorers.programs.task import doc_of
from tests.benchmarks.files import SHARED
from tests.memory import taking_at_most
from tests.scorers.batches import any_target, generations, scored
from tests.scorers.test_corpus import CORPUS
from tests.scorers.test_hostile import GRADED, PIECES, TEXT_SCORERS
from tests.scorers.test_mrcr import START, TARGET
from tests.scorers.test_tool_calls import DOC as FUNCTIONS
from tests.timing import taking_less_than

SIZE = 100
"""Answers that are scored at once."""
SECONDS_EACH = 0.1
"""Most CPU time of an answer in the scoring process, on a busy machine; children have limits of their own."""
MEMORY = 400_000_000
OUTCOMES = {"scored", "unparsed", "timeout"}
PROGRAMS = (
    "def f(x):\n    return x + 1\n",
    "Here it is:\n\n```python\ndef f(x: int) -> int:\n    '''Add one.\n\n    >>> f(1)\n    2\n    '''\n    total = [x, 1]\n    return sum(total)\n```\n\nIt adds one.",
    "```\nimport math\n\nclass A:\n    def g(self, x):\n        return math.floor(x) + 1\n\ndef f(x):\n    return A().g(x)\n```\nOutput:\n```\n2\n```",
    "    while x < 10**9:\n        return [y for y in range(x + 2)][-1]\n",
)
ARGUMENTS = (
    '{"s": "a", "i": 1, "f": 1.5, "b": true, "l": ["a", "b"], "o": {"k": "a"}, "lo": [{"k": 1}]}',
    '{"l": [[[["a"]]]], "o": {"k": {"k": {"k": [{}]}}}, "lo": [{"k": [1, {"k": 2}]}, {}]}',
    '{"i": 12345678901234567890, "f": 1e999, "s": "\\ud83d", "s": null}',
    "[" * 5_000,
    '{"o":' * 500 + "1" + "}" * 500,
)
REPLIES = (
    '{"verdict": "A"}',
    '```json\n{"explanation": "It is right.", "verdict": "CORRECT"}\n```',
    "The first is better.\n\n**Verdict:** [[A]]",
    "Grade: 3",
    '{"criteria": [{"explanation": "yes", "met": true}, {"explanation": "no", "met": false}]}',
)


@cache
def real_answers() -> tuple[str, ...]:
    """Answers of the corpus and, where they are, those that models gave to GSM8K."""
    answers = [row["text"] for row in CORPUS]
    for path in sorted(SHARED.glob("generations/zeroeval-gsm/*.json.gz")):
        rows = json.loads(gzip.decompress(path.read_bytes()))
        answers += [str(row["output"][0]) for row in rows[:200]]
    solutions = SHARED / "generations" / "openai-gsm8k" / "solutions.jsonl"
    if solutions.is_file():
        rows = [json.loads(line) for line in solutions.read_text().splitlines()[:200]]
        answers += [row["6b_finetuning"]["solution"] for row in rows]
    return tuple(answers)


@cache
def real_programs() -> tuple[str, ...]:
    """Answers of models and, as a fifth of all, written programs."""
    return (*real_answers(), *PROGRAMS * (len(real_answers()) // (4 * len(PROGRAMS)) + 1))


def mutated(answer: str, number: int, others: Sequence[str]) -> str:
    """Return an answer after some random changes: parts of it lost, repeated, moved, or replaced by hostile pieces."""
    drawn = random.Random(number)
    for _ in range(drawn.randint(1, 6)):
        start, end = sorted(drawn.choices(range(len(answer) + 1), k=2))
        part = answer[start:end]
        part = drawn.choice(
            [
                "",
                part[: drawn.randint(1, 30)] * drawn.choice([2, 3, 50, 500]),
                part[::-1],
                part.swapcase(),
                drawn.choice(PIECES) * drawn.choice([1, 1, 2, 40]),
                chr(drawn.choice([0, 8, 27, 0x85, 0x2028, 0xFEFF, 0xFFFD, 0x10FFFF])),
                drawn.choice(others),
            ]
        )
        answer = (answer[:start] + part + answer[end:])[:20_000]
    return answer


def changed(texts: Sequence[str], number: int, size: int = SIZE) -> list[str]:
    """Return some of the texts, each changed at random."""
    drawn = random.Random(number)
    return [mutated(drawn.choice(texts), drawn.getrandbits(32), texts) for _ in range(size)]


Batches = Callable[[], Iterator[list[str]]]


def in_batches(texts: Callable[[], Sequence[str]], batches: int = 1, size: int = SIZE) -> Any:
    """Call a test with a few batches of changed texts, and in the slow tests with 20,000 texts."""

    def few() -> Iterator[list[str]]:
        return (changed(texts(), number, size) for number in range(batches))

    def many() -> Iterator[list[str]]:
        return (changed(texts(), number) for number in range(1000, 1000 + 20_000 // SIZE))

    slow = [pytest.mark.slow, pytest.mark.timeout(7200)]
    return pytest.mark.parametrize(
        "batches", [pytest.param(few, id="a few"), pytest.param(many, id="20,000", marks=slow)]
    )


def check(scorer: str, answers: Sequence[str], **changes: object) -> None:
    choices = ["x", "Paris", "y", answers[0][:50]]
    batch = generations(answers, any_target(scorer), choices=choices, **changes)
    with taking_at_most(MEMORY):
        limit = 2 + SECONDS_EACH * len(answers)
        scores = taking_less_than(limit, lambda: scored(scorer, batch))
    assert scores["sample_id"].equals(batch["sample_id"])
    assert set(SCORE_SCHEMA.names) <= set(scores.schema.names)
    assert {*scores["outcome"].to_pylist()} <= OUTCOMES
    values = {*scores["value"].to_pylist()}
    assert all(0 <= value <= 1 for value in values) if scorer in GRADED else values <= {0.0, 1.0}


@pytest.mark.parametrize("scorer", TEXT_SCORERS)
@in_batches(real_answers)
def test_changed_answers_are_scored(scorer: str, batches: Batches) -> None:
    for answers in batches():
        check(scorer, answers)


@in_batches(real_programs, size=40)
def test_changed_programs_are_scored(batches: Batches) -> None:
    tests = [{"source": "assert f(1) == 2\nassert f(2) == 3"}]
    doc = json.dumps(doc_of(function="f", tests=tests))
    for answers in batches():
        check("code", answers, doc=doc)


@in_batches(real_answers)
def test_changed_parts_of_conversations_are_scored(batches: Batches) -> None:
    doc = json.dumps({"random_string_to_prepend": START})
    for answers in batches():
        check("mrcr", [START + answer for answer in answers], doc=doc, target=TARGET)


@in_batches(lambda: ARGUMENTS, batches=2)
def test_changed_calls_are_scored(batches: Batches) -> None:
    right = {"s": ["a"], "i": [1], "l": [["a", "b"]], "o": [{"k": ["a"]}], "lo": [[{"k": [1]}]]}
    shared = {"doc": FUNCTIONS, "target": json.dumps([{"g": right}])}
    for arguments in batches():
        for text in arguments:
            check("tool_calls", [""], tool_calls=calls_text([("g", text)]), **shared)
        calls = calls_text(("h", text) for text in arguments)
        check("tool_calls", [""], tool_calls=calls, **shared)


@pytest.mark.parametrize("rubric", RUBRICS)
@in_batches(lambda: REPLIES, batches=5)
def test_changed_replies_of_a_judge_are_read_or_not(rubric: str, batches: Batches) -> None:
    facts = rubric_facts(open_rubric(rubric))
    for replies in batches():
        limit = 2 + SECONDS_EACH * len(replies)
        read = partial(read_verdict, rubric=facts, criteria=2)
        for reading in taking_less_than(limit, lambda: [*map(read, replies)]):  # noqa: B023 - called at once
            assert reading is None or all(isinstance(label, str) for label in reading.labels)
