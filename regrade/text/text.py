"""Make untrusted texts safe to show: no control characters, limited length."""

from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from unicodedata import category

SHOWN_CHARACTERS = 600
"""Characters of a prompt or answer shown in an example: its end, which holds the question or the final answer."""


def visible(text: str) -> str:
    """Return a text with its control characters replaced, such as those that begin terminal escape codes."""
    # Python calls no other space printable than " ".
    return "".join(
        c if c.isprintable() or c in "\n\t" or category(c) == "Zs" else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def tail(text: str) -> str:
    """Return the end of a text, with an ellipsis if it was cut."""
    return text if len(text) <= SHOWN_CHARACTERS else f"… {text[-SHOWN_CHARACTERS:]}"


def common_length(left: Sequence[object], right: Sequence[object]) -> int:
    """Return the length of the common beginning, in characters or items."""
    return len([*takewhile(bool, map(eq, left, right))])


def shortened(text: str, limit: int) -> str:
    """Return the beginning of a text, at most `limit` characters with an ellipsis at its end if it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def duration_text(seconds: float) -> str:
    """Return a duration as `3 h 20 min`, `3 min 20 s` or `20 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def significant(number: float, digits: int) -> str:
    """Return a number with so many significant digits; a large one without an exponent: `0.0123`, `100`, `12,350`."""
    return f"{float(f'{number:.{digits}g}'):,.15g}"


def counted(number: int | float, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1: `1 test`, `1,200 tests`, `0.5 points`."""
    value = f"{number:g}" if isinstance(number, float) else f"{number:,}"
    return f"{value} {noun}{'' if number == 1 else 's'}"


def part_of(number: int, total: int, noun: str) -> str:
    """Return a part with the noun of the whole: `1,200 of 1,319 answers`."""
    return f"{number:,} of {counted(total, noun)}"
