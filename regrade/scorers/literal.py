r"""Scorer of Python and JSON values, such as `[0, 'ab']`, for questions that ask for the output of a program."""

import ast
import json
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from regrade.records.patterns import compiled
from regrade.scorers.base import Reading, TargetKind, answer_part, check_targets, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.slots import (
    LONGEST,
    STATEMENTS,
    STRUCTURED,
    Found,
    Part,
    Slots,
    read,
    read_each,
)
from regrade.settings import ScorerName

_MOST_BRACKETS = 2500
"""Opening brackets of the largest value that is read."""
_KEPT = 200
"""Longest extracted value stored in the scores, in characters; the comparison uses the whole value."""
_MARKS = " \t\r\n*`$:"
_END_MARKS = " \t\r\n*`$.,;"
_TEXT = compiled(r"\s*\$?\\(?:text|math)[a-z]{0,2}\{([^{}]*)\}\$?\s*")
_TOKEN = compiled(r"\S+")
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_JSON = {"true": True, "false": False, "null": None}
_PARSING = Lock()
"""Python 3.11 up to 3.11.7 cannot parse in two threads: https://github.com/python/cpython/issues/106905."""


class LiteralScorer:
    """Reads a value from a slot or after `answer is`, and compares it with the target by type and content."""

    name: ScorerName = "literal"
    version = 2
    description = (
        "The Python or JSON value in the last `\\boxed{}`, `<answer>` or JSON field `answer`; else after the last `answer is` or "
        "`answer:`; else the whole answer, if it is a single line. It must equal the target: `[0]` is not `0`, `'Ab'` not `'ab'`, "
        "`1.0` is 1. A text that is no such value is a string."
    )
    unparsed = "An answer of several lines without such a slot or marker, or with nothing in it."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        targets = c.column(batch, "target")
        check_targets(self.name, "a value", batch, c.is_match(targets, r"\S"))
        texts = answer_part(batch)
        found, has_slot = read(texts, STRUCTURED, _read_slot)
        rest = texts.where(found.open).without(has_slot)
        statements, has_statement = read(rest, STATEMENTS, _read_statement)
        found = found.otherwise(statements)
        line = rest.without(has_statement).trimmed()
        found = found.otherwise(read_each(line.without(line.matches(r"\n")), _whole))
        pairs = zip(found.value.to_pylist(), targets.to_pylist(), strict=True)
        right = [
            value is not None and target is not None and is_same(value, target)
            for value, target in pairs
        ]
        values = c.shortened(found.value, _KEPT)
        return score_rows(batch, Reading(values, c.mask(np.array(right, np.bool_)), found.place))


@cache
def value_of(text: str) -> Any:  # noqa: ANN401 - any literal
    """Return the value of a Python or JSON literal; the text itself if it is none."""
    text = text.strip()
    if text.startswith("\\{"):
        text = text.replace("\\{", "{").replace("\\}", "}")
    try:
        return _JSON[text] if text in _JSON else _parsed(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text


def _parsed(text: str) -> Any:  # noqa: ANN401 - as above
    if len(text) > LONGEST or sum(map(text.count, _BRACKETS)) > _MOST_BRACKETS:
        raise ValueError(text)
    try:
        with _PARSING:
            return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return json.loads(text)


def is_same(text: str, target: str) -> bool:
    """Return True if two texts stand for the same value.

    A string in a JSON field often lacks the quotes that it has as a literal: its spaces count, and it may have a literal's escapes.
    """
    value, wanted = value_of(text), value_of(target)
    if _is_same(value, wanted):
        return True
    if not isinstance(wanted, str):
        return False
    is_spaced, is_escaped = text != text.strip(), "\\" in text and value == text
    return (is_spaced and text == wanted) or (
        is_escaped and any(value_of(f"{q}{text}{q}") == wanted for q in "'\"")
    )


def _is_same(one: Any, other: Any) -> bool:  # noqa: ANN401 - as above
    numbers = (int, float, complex)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return isinstance(one, bool) == isinstance(other, bool) and one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _read_slot(slots: Slots) -> Found:
    """Read the content of the slot, and a field's list or mapping up to its end."""
    is_open = slots.content.matches(r"\A[\[({]")
    return read_each(slots.rest.where(is_open), _begin).otherwise(
        read_each(slots.content.without(is_open), _whole)
    )


def _read_statement(slots: Slots) -> Found:
    return read_each(slots.content, _begin)


def _begin(text: str) -> Part | None:
    """Return the value with which a text begins: up to its closing bracket or quote, or else to the end of the line."""
    start = len(text) - len(text.lstrip(_MARKS))
    end = _end_of_value(text, start)
    if end is None:
        line = text[start:].partition("\n")[0].rstrip(_END_MARKS)
        token = _first_token(line)
        end = start + len(line)
        if token and isinstance(value_of(token), bool | int | float | complex | None):
            end = start + len(token)
    return Part(start, end, text[start:end]) if end > start else None


def _first_token(line: str) -> str:
    """Return the text up to the first space, without a mark that ends it; "" if the line begins with a space."""
    found = _TOKEN.match(line)
    token = found[0] if found else ""
    return token[:-1] if token.endswith((",", ";", ".")) else token


def _end_of_value(text: str, start: int) -> int | None:
    """Return the place after the bracket or quote that closes the one at `start`; None if the text begins with neither."""
    closing: list[str] = []
    quote = ""
    place = start
    while place < min(len(text), start + LONGEST):
        character = text[place]
        if quote:
            if character == "\\":
                place += 1
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character in _BRACKETS:
            closing.append(_BRACKETS[character])
        elif closing and character == closing[-1]:
            closing.pop()
        elif not closing:
            return None
        place += 1
        if not quote and not closing:
            return place
    return None


def _whole(text: str) -> Part | None:
    """Return the whole content of a slot; of a field that is a string, the string."""
    inner = _TEXT.fullmatch(text)
    start, end = (inner.start(1), inner.end(1)) if inner else (0, len(text))
    start += len(text[start:end]) - len(text[start:end].lstrip(_MARKS))
    content = text[start:end].rstrip(_END_MARKS)
    answer = content
    if content.startswith('"'):
        value = value_of(content)
        answer = value if isinstance(value, str) else content
    return Part(start, start + len(content), answer) if content else None


scorer = LiteralScorer
