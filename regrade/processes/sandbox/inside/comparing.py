"""Compare what a program gave with what is expected, in the sandbox of the tests. The rules are LiveCodeBench's.

Jain et al. 2024, https://arxiv.org/abs/2403.07974
"""

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from regrade.processes.sandbox.inside.frames import read_frame, write_frame
from regrade.processes.sandbox.inside.plain import Opaque, Value, value_in
from regrade.processes.sandbox.inside.programs import PASSED, REQUESTS, VERDICTS


def compare(*, text: bool, deep: bool) -> "int | None":
    """Compare answers of a program with what is expected, until one differs; return the exit code.

    What is expected and the answer come in turns; an empty message ends them. Each that is the same is told by an empty message.

    Args:
        text: Answers are outputs of scripts, and texts are expected; otherwise results of calls, and JSON values.
        deep: See `is_same_value`.
    """
    while expected := read_frame(REQUESTS):
        wanted, answer = json.loads(expected), read_frame(REQUESTS)
        if text:
            same = is_same_text(answer, wanted)
        else:
            same = is_same_value(value_in(answer), wanted, deep=deep)
        if not same:
            return None
        write_frame(VERDICTS, b"")
    return PASSED


def is_same_text(output: bytes, expected: str) -> bool:
    """True if two outputs have the same lines, without white space around them and around each line.

    Lines that differ are the same if all their words are numbers with equal values, such as `1.50` and `1.5`.
    """
    try:
        given = output.decode()
    except UnicodeDecodeError:
        return False
    lines, others = _lines(given), _lines(expected)
    return len(lines) == len(others) and all(map(_is_same_line, lines, others))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _is_same_line(line: str, other: str) -> bool:
    if line == other:
        return True
    numbers, others = _numbers(line), _numbers(other)
    try:
        return numbers is not None and numbers == others
    except InvalidOperation:  # a signalling NaN
        return False


def _numbers(line: str) -> "Sequence[Decimal] | None":
    try:
        return [Decimal(word) for word in line.split()]
    except InvalidOperation:
        return None


def is_same_value(value: Value, expected: Any, *, deep: bool) -> bool:  # noqa: ANN401 - any JSON
    """True if a result equals an expected JSON value. JSON has no tuples: a tuple counts as a list.

    Args:
        value: Result of a call.
        expected: JSON value.
        deep: Count tuples within other values as lists too; LiveCodeBench counts only the result itself.
    """
    if isinstance(value, Opaque):
        return False
    try:
        if deep:
            value = _listed(value)
        elif isinstance(value, tuple):
            value = list(value)
        same = value == expected
    except (ArithmeticError, RecursionError, ValueError):
        return False
    return same is True  # an array compares element by element


def _listed(value: Value) -> Value:
    if isinstance(value, (list, tuple)):
        return [_listed(item) for item in value]
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return value
