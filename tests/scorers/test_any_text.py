"""Any text, any scorer: answers that models gave, cut, repeated and mixed at random. No exception, bounded time and memory."""

import gzip
import json
import random
import time
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from regrade.records.columns import SCORE_SCHEMA
from regrade.records.rubrics import RUBRICS, open_rubric
from regrade.records.rubrics.facts import rubric_facts
from regrade.records.rubrics.reading import read_verdict
from regrade.records.tools import calls_text
from regrade.scorers.programs.task import doc_of
from tests.benchmarks.files import SHARED
from tests.memory import taking_at_most
from tests.scorers.batches import generations, scored
from tests.scorers.test_corpus import CORPUS
from tests.scorers.test_hostile import GRADED, PIECES, TEXT_SCORERS, target
from tests.scorers.test_mrcr import START, TARGET
from tests.scorers.test_tool_calls import DOC as FUNCTIONS

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


def answers_of(texts: Sequence[str], size: int) -> st.SearchStrategy[list[str]]:
    def made(number: int) -> list[str]:
        drawn = random.Random(number)
        return [mutated(drawn.choice(texts), drawn.getrandbits(32), texts) for _ in range(size)]

    return st.integers(0, 2**32).map(made)


def check(scorer: str, answers: Sequence[str], **changes: object) -> None:
    with taking_at_most(MEMORY):
        started = time.process_time()
        batch = generations(
            answers, target(scorer), choices=["x", "Paris", "y", answers[0][:50]], **changes
        )
        scores = scored(scorer, batch)
        assert time.process_time() - started < 2 + SECONDS_EACH * len(answers)
    assert scores["sample_id"].equals(batch["sample_id"])
    assert set(SCORE_SCHEMA.names) <= set(scores.schema.names)
    assert {*scores["outcome"].to_pylist()} <= OUTCOMES
    values = {*scores["value"].to_pylist()}
    assert all(0 <= value <= 1 for value in values) if scorer in GRADED else values <= {0.0, 1.0}


@pytest.mark.parametrize("scorer", TEXT_SCORERS)
@seed(0)
@settings(max_examples=1, database=None)
@given(answers=answers_of(real_answers(), SIZE))
def test_changed_answers_are_scored(scorer: str, answers: list[str]) -> None:
    check(scorer, answers)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scorer", TEXT_SCORERS)
@seed(1)
@settings(max_examples=20_000 // SIZE, database=None)
@given(answers=answers_of(real_answers(), SIZE))
def test_twenty_thousand_changed_answers_are_scored(scorer: str, answers: list[str]) -> None:
    check(scorer, answers)


DOC = json.dumps(doc_of(function="f", tests=[{"source": "assert f(1) == 2\nassert f(2) == 3"}]))


@seed(0)
@settings(max_examples=1, database=None)
@given(answers=answers_of(PROGRAMS, 10))
def test_changed_programs_are_scored(answers: list[str]) -> None:
    check("code", answers, doc=DOC)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@seed(1)
@settings(max_examples=20_000 // SIZE, database=None)
@given(answers=answers_of(real_programs(), SIZE))
def test_twenty_thousand_changed_programs_are_scored(answers: list[str]) -> None:
    check("code", answers, doc=DOC)


def check_parts(answers: Sequence[str]) -> None:
    doc = json.dumps({"random_string_to_prepend": START})
    check("mrcr", [START + answer for answer in answers], doc=doc, target=TARGET)


@seed(0)
@settings(max_examples=1, database=None)
@given(answers=answers_of(real_answers(), SIZE))
def test_changed_parts_of_conversations_are_scored(answers: list[str]) -> None:
    check_parts(answers)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@seed(1)
@settings(max_examples=20_000 // SIZE, database=None)
@given(answers=answers_of(real_answers(), SIZE))
def test_twenty_thousand_changed_parts_of_conversations_are_scored(answers: list[str]) -> None:
    check_parts(answers)


def check_calls(arguments: Sequence[str]) -> None:
    right = {"s": ["a"], "i": [1], "l": [["a", "b"]], "o": [{"k": ["a"]}], "lo": [[{"k": [1]}]]}
    shared = {"doc": FUNCTIONS, "target": json.dumps([{"g": right}])}
    for text in arguments:
        check("tool_calls", [""], tool_calls=calls_text([("g", text)]), **shared)
    check("tool_calls", [""], tool_calls=calls_text(("h", text) for text in arguments), **shared)


@seed(0)
@settings(max_examples=2, database=None)
@given(arguments=answers_of(ARGUMENTS, SIZE))
def test_changed_calls_are_scored(arguments: list[str]) -> None:
    check_calls(arguments)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@seed(1)
@settings(max_examples=20_000 // SIZE, database=None)
@given(arguments=answers_of(ARGUMENTS, SIZE))
def test_twenty_thousand_changed_calls_are_scored(arguments: list[str]) -> None:
    check_calls(arguments)


@pytest.mark.parametrize("rubric", RUBRICS)
@seed(0)
@settings(max_examples=5, database=None)
@given(replies=answers_of(REPLIES, SIZE))
def test_changed_replies_of_a_judge_are_read_or_not(rubric: str, replies: list[str]) -> None:
    read(rubric, replies)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rubric", RUBRICS)
@seed(1)
@settings(max_examples=20_000 // SIZE, database=None)
@given(replies=answers_of(REPLIES, SIZE))
def test_twenty_thousand_changed_replies_of_a_judge_are_read_or_not(
    rubric: str, replies: list[str]
) -> None:
    read(rubric, replies)


def read(rubric: str, replies: Sequence[str]) -> None:
    facts = rubric_facts(open_rubric(rubric))
    started = time.process_time()
    for reply in replies:
        reading = read_verdict(reply, facts, criteria=2)
        assert reading is None or all(isinstance(label, str) for label in reading.labels)
    assert time.process_time() - started < 2 + SECONDS_EACH * len(replies)
