"""Targets that scorers can compare with, from the right answers in a dataset."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations
from string import ascii_uppercase
from typing import Any

from regrade.records import Message

LETTERS = ascii_uppercase
_NUMBER = re.compile(
    r"[+-]?[$€£¥₹]? ?(?:[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}|[0-9]+|(?=\.))(?:\.[0-9]+)?(?:/[0-9]+)? ?%?"
)
_LETTER = re.compile(r"\(([A-Za-z])\)|([A-Za-z])[.)]?")
"""A letter as `B`, `b`, `(B)`, `B)` or `B.`."""
_LIST_OF_ONE = re.compile(r"""\[\s*(?:([0-9]{1,2})|([A-Za-z])|'([^']*)'|"([^"]*)")\s*\]""")
"""A list with one element as text: `[1]`, `[B]`, `['B']` or `["Paris"]`."""


class RowError(Exception):
    """A benchmark cannot use a row.

    `row` counts from 0; `problem` names the value found and what was expected. `StandardBenchmark` turns this into a
    `SourceError` that names benchmark, source and split.
    """

    def __init__(self, row: int, problem: str) -> None:
        self.row, self.problem = row, problem
        super().__init__(row, problem)


def turns_of(index: int, name: str, value: object) -> list[Message]:
    """Return the turns of a conversation that ends with a question, without what else they hold.

    Args:
        index: Number of the row.
        name: Words for the value in an error.
        value: Value of the row.

    Raises:
        RowError: If it is not a list of objects with `role` and `content`, or the last one is not the user's.
    """
    turns = value if isinstance(value, list) else []
    if not all(map(_is_turn, turns)) or not turns or turns[-1]["role"] != "user":
        raise RowError(
            index,
            f"{name} is {str(value)[:100]!r}; expected a list of objects with `role` (system, user or assistant) and `content`, a text, "
            "of which the last is the user's",
        )
    return [{"role": turn["role"], "content": turn["content"]} for turn in turns]


def _is_turn(turn: object) -> bool:
    return (
        isinstance(turn, Mapping)
        and turn.get("role") in ("system", "user", "assistant")
        and isinstance(turn.get("content"), str)
    )


def number_target(value: object) -> str | None:
    """Return a number as text, without thousands commas and `+`; None if the value is not a number.

    Decimals, fractions (`3/4`), currency and percent signs are kept, because scorers read them. A text that ends
    with `#### N`, as GSM8K's solutions do, means N.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float | Decimal):
        return format(Decimal(str(value)), "f") if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    text = value.rpartition("####")[2].strip()
    return text.replace(",", "").removeprefix("+") if _NUMBER.fullmatch(text) else None


def text_target(value: object) -> str | None:
    """Return a text or number as text; None for other types, NaN and blank text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    if value != value:  # NaN, as pandas writes a missing value
        return None
    text = str(value)
    return text if text.strip() else None


def needed_text(row: int, name: str, value: object) -> str:
    """Return a text or number as text; `name` is that of the value in an error.

    Raises:
        RowError: If it is neither, or blank.
    """
    text = text_target(value)
    if text is None:
        raise RowError(row, f"{name} is {value!r}; expected a text or number")
    return text


def question_text(row: int, value: object) -> str:
    """Return the text of a question; errors as in `plain_text`."""
    return plain_text(row, "the question", value)


def plain_text(row: int, name: str, value: object) -> str:
    """Return a text as it is; `name` is that of the value in an error.

    Raises:
        RowError: If the value is not a text, or blank.
    """
    if not isinstance(value, str) or not value.strip():
        raise RowError(row, f"{name} is {value!r}; expected a text")
    return value


def letter_target(value: object) -> str | None:
    """Return the letter of `B` or `(B)`; None for other values."""
    match = re.fullmatch(r"\(([A-Z])\)|([A-Z])", value.strip()) if isinstance(value, str) else None
    return (match[1] or match[2]) if match else None


def choice_letter(row: int, name: str, value: object, choices: int) -> str:
    """Return the letter of the right one of some choices; `name` is that of the value in an error.

    Raises:
        RowError: If it is the letter of none of them.
    """
    letter = letter_target(value)
    if letter is None or letter not in LETTERS[:choices]:
        last = LETTERS[max(0, choices - 1)]
        raise RowError(row, f"{name} is {value!r}; expected a letter from A to {last}")
    return letter


def choice_place(row: int, name: str, value: object, choices: int) -> int:
    """Return the index of the right one of some choices, from 0, also if it is a text; `name` as in `choice_letter`.

    Raises:
        RowError: If it is the index of none of them.
    """
    place = value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        place = int(value)
    if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < choices:
        raise RowError(row, f"{name} is {value!r}; expected a number from 0 to {choices - 1}")
    return place


def choice_texts(row: int, value: object) -> tuple[str, ...]:
    """Return the choices of a row as texts.

    Raises:
        RowError: If the value is not a list of 2 to 26 texts or numbers.
    """
    if not isinstance(value, list | tuple):
        raise RowError(
            row, f"the choices are {value!r}; expected a list of 2 to {len(LETTERS)} texts"
        )
    if not 2 <= len(value) <= len(LETTERS):
        raise RowError(row, f"there are {len(value)} choices; expected 2 to {len(LETTERS)}")
    texts = []
    for letter, choice in zip(LETTERS, value, strict=False):
        text = text_target(choice)
        if text is None:
            raise RowError(row, f"choice {letter} is {choice!r}; expected a text")
        texts.append(text)
    return tuple(texts)


def listed(choices: Sequence[str], *, strip: bool = True) -> str:
    """Return the choices as lines such as `A. Paris`, by default without white space around a choice."""
    return "\n".join(
        f"{letter}. {text.strip() if strip else text}"
        for letter, text in zip(LETTERS, choices, strict=False)
    )


def choice_letters(targets: Sequence[Any], choices: Sequence[Sequence[str]]) -> list[str]:
    """Return the letter of the right choice of each row.

    A target is an index from 0, a letter (`B`, `(B)`), or the text of exactly one choice; a list with one element,
    such as `[1]`, means its element. All rows are read in the same way, because a single row can be ambiguous: its
    choices may be letters or digits.

    Raises:
        RowError: If a row cannot be read like the others, or two ways of reading the column give different letters.
    """
    readings = _readings(targets, choices)
    complete = {name: letters for name, letters in readings.items() if None not in letters}
    if not complete:
        raise _unreadable(targets, choices, readings)
    _refuse_two_meanings(targets, complete)
    return [str(letter) for letter in next(iter(complete.values()))]


def usable_choice_letters(
    targets: Sequence[Any], choices: Sequence[Sequence[str]]
) -> list[str | None]:
    """Return the letter of the right choice of each row; None for a row whose target is None or fits no choice.

    Targets are read as in `choice_letters`. If they do not all fit, more than half of them must fit in the same way.
    Indexes are not used if one of them is too large: such a column may count from 1.

    Raises:
        RowError: If no reading fits most rows, or two readings do and give different letters.
    """
    known = [row for row, target in enumerate(targets) if target is not None]
    some, of_some = [targets[row] for row in known], [choices[row] for row in known]
    readings = _readings(some, of_some)
    fitting = {name: letters for name, letters in readings.items() if None not in letters}
    if not fitting:
        counts_from_1 = any(map(_is_beyond, some, of_some))
        fitting = {
            name: letters
            for name, letters in readings.items()
            if 2 * letters.count(None) < len(known) and not (name == _INDEX and counts_from_1)
        }
    try:
        if known and not fitting:
            raise _unreadable(some, of_some, readings)
        _refuse_two_meanings(some, fitting)
    except RowError as error:
        raise RowError(known[error.row], error.problem) from error
    best = min(fitting.values(), key=lambda letters: letters.count(None), default=[])
    letters: list[str | None] = [None] * len(targets)
    for row, letter in zip(known, best, strict=True):
        letters[row] = letter
    return letters


def _readings(
    targets: Sequence[Any], choices: Sequence[Sequence[str]]
) -> dict[str, list[str | None]]:
    """Return the letters that each way of reading gives; None for a row that it cannot read."""
    return {
        name: [read(target, row) for target, row in zip(targets, choices, strict=True)]
        for name, read in _LABELLINGS.items()
    }


def _refuse_two_meanings(
    targets: Sequence[Any], readings: Mapping[str, Sequence[str | None]]
) -> None:
    for (first, letters), (other, differing) in combinations(readings.items(), 2):
        for row, (letter, differs) in enumerate(zip(letters, differing, strict=True)):
            if letter is not None and differs is not None and letter != differs:
                raise RowError(
                    row,
                    f"the target {targets[row]!r} means choice {letter} if it is {first}, and choice {differs} if it "
                    f"is {other}; give the indexes from 0 as numbers",
                )


def _only_element(target: object) -> object:
    """Return the element of a list with one element, also of one written as text; other targets as they are."""
    if isinstance(target, list | tuple):
        return target[0] if len(target) == 1 else target
    match = _LIST_OF_ONE.fullmatch(target.strip()) if isinstance(target, str) else None
    return target if match is None else next(part for part in match.groups() if part is not None)


def _index(target: object) -> int | None:
    target = _only_element(target)
    if isinstance(target, bool):
        return None
    if isinstance(target, str):  # CSV knows only text
        target = int(target) if re.fullmatch(r"[0-9]{1,2}", target.strip()) else None
    elif isinstance(target, float) and target.is_integer():
        target = int(target)
    return target if isinstance(target, int) else None


def _is_beyond(target: object, choices: Sequence[str]) -> bool:
    index = _index(target)
    return index is not None and index >= len(choices)


def _by_index(target: object, choices: Sequence[str]) -> str | None:
    index = _index(target)
    return None if index is None else _letter(index, choices)


def _by_letter(target: object, choices: Sequence[str]) -> str | None:
    target = _only_element(target)
    match = _LETTER.fullmatch(target.strip()) if isinstance(target, str) else None
    letter = (match[1] or match[2]).upper() if match else ""
    return letter if letter and letter in LETTERS[: len(choices)] else None


def _by_text(target: object, choices: Sequence[str]) -> str | None:
    for text in (target, _only_element(target)):
        if isinstance(text, str):
            for same in (
                str,
                str.strip,
            ):  # white space around matters only if the choices differ by it
                texts = [same(choice) for choice in choices]
                if texts.count(same(text)) == 1:
                    return _letter(texts.index(same(text)), choices)
    return None


def _letter(index: int, choices: Sequence[str]) -> str | None:
    return LETTERS[index] if 0 <= index < min(len(choices), len(LETTERS)) else None


_INDEX = "an index of its choices"
_LABELLINGS: Mapping[str, Callable[[Any, Sequence[str]], str | None]] = {
    _INDEX: _by_index,
    "a letter of its choices": _by_letter,
    "the text of one choice": _by_text,
}


def _unreadable(
    targets: Sequence[Any],
    choices: Sequence[Sequence[str]],
    readings: Mapping[str, Sequence[str | None]],
) -> RowError:
    """Return an error for the first row that the best reading fails on; the best fits the most rows from the start."""
    reading = max(readings, key=lambda name: readings[name].index(None))
    row = readings[reading].index(None)
    count = len(choices[row])
    problem = f"the target {targets[row]!r} is not {reading}"
    if row:
        problem += ", as in the rows before"
    if (times := list(choices[row]).count(targets[row])) > 1:
        problem += f" (it is the text of {times} choices)"
    return RowError(
        row,
        f"{problem}; expected an index from 0 to {count - 1}, a letter from A to {LETTERS[count - 1]}, or the text of "
        "exactly one choice, in the same way in all rows",
    )
