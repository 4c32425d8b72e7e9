"""Targets that scorers can compare with, from the right answers in a dataset."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from string import ascii_uppercase
from typing import Any

LETTERS = ascii_uppercase
_NUMBER = re.compile(
    r"[+-]?[$€£¥₹]? ?(?:[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}|[0-9]+|(?=\.))(?:\.[0-9]+)?(?:/[0-9]+)? ?%?"
)


class RowError(Exception):
    """A benchmark cannot use a row.

    `row` counts from 0; `problem` names the value found and what was expected. `StandardBenchmark` turns this into a
    `SourceError` that names benchmark, source and split.
    """

    def __init__(self, row: int, problem: str) -> None:
        self.row, self.problem = row, problem
        super().__init__(row, problem)


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
    """Return a text or number as text; None for other types and for blank text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    text = str(value)
    return text if text.strip() else None


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


def listed(choices: Sequence[str]) -> str:
    """Return the choices as lines such as `A. Paris`."""
    return "\n".join(
        f"{letter}. {text.strip()}" for letter, text in zip(LETTERS, choices, strict=False)
    )


def choice_letters(targets: Sequence[Any], choices: Sequence[Sequence[str]]) -> list[str]:
    """Return the letter of the right choice of each row.

    A target is an index from 0, a letter, or the text of exactly one choice. All rows are read in the same way,
    because a single row can be ambiguous: its choices may be letters or digits.

    Raises:
        RowError: If a row cannot be read like the others, or two ways of reading the column give different letters.
    """
    readings = {
        name: [read(target, row) for target, row in zip(targets, choices, strict=True)]
        for name, read in _LABELLINGS.items()
    }
    fitting = {
        name: [letter for letter in letters if letter is not None]
        for name, letters in readings.items()
        if None not in letters
    }
    if not fitting:
        raise _unreadable(targets, choices, readings)
    first, *others = fitting
    for other in others:
        for row, (letter, differs) in enumerate(zip(fitting[first], fitting[other], strict=True)):
            if letter != differs:
                raise RowError(
                    row,
                    f"the target {targets[row]!r} means choice {letter} if it is {first}, and choice {differs} if it "
                    f"is {other}; give the indexes from 0 as numbers",
                )
    return fitting[first]


def _by_index(target: object, choices: Sequence[str]) -> str | None:
    if isinstance(target, bool):
        return None
    if isinstance(target, str):  # CSV knows only text
        target = int(target) if re.fullmatch(r"\d{1,2}", target.strip()) else None
    elif isinstance(target, float) and target.is_integer():
        target = int(target)
    if not isinstance(target, int) or not 0 <= target < len(choices):
        return None
    return LETTERS[target]


def _by_letter(target: object, choices: Sequence[str]) -> str | None:
    letter = target.strip().upper() if isinstance(target, str) else ""
    return letter if len(letter) == 1 and letter in LETTERS[: len(choices)] else None


def _by_text(target: object, choices: Sequence[str]) -> str | None:
    if not isinstance(target, str) or choices.count(target) != 1:
        return None
    return LETTERS[choices.index(target)]


_LABELLINGS: Mapping[str, Callable[[Any, Sequence[str]], str | None]] = {
    "an index of its choices": _by_index,
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
