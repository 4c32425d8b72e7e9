"""A page as a list of blocks. Rooms return the blocks of their results; the writers decide how a medium shows each.

Texts are untrusted: the writers escape them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regrade.text.layout import Table

Tone = Literal["", "good", "bad", "open", "doubt", "note"]
"""`open` is a verdict that cannot tell, `doubt` a reason to doubt a result, `note` an explanation for readers of a page."""


@dataclass(frozen=True, slots=True)
class Strong:
    """Words in bold."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A command, id or name inside a line."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link; without an address, its text as code."""

    text: str
    address: str | None


Words = str | Strong | Code | Link
Text = Words | Sequence[Words]
"""A line of text; a tuple holds its parts."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading."""

    text: Text
    level: int = 2
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence or a short paragraph."""

    text: Text
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list of lines."""

    lines: Sequence[Text]
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """A text of several lines, such as an answer, as it is."""

    title: Text
    text: str


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands to copy."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Plot:
    """An image."""

    title: str
    address: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks below a title, which a page shows on a click."""

    title: Text
    blocks: "Sequence[Block]"


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that only a page has room for: a terminal leaves them out."""

    blocks: "Sequence[Block]"


Block = Heading | Line | Items | Table | Quote | Commands | Plot | Fold | Details


def parts(text: Text) -> Sequence[Words]:
    """Return the parts of a line."""
    return (text,) if isinstance(text, str | Strong | Code | Link) else text


def plain(text: Text) -> str:
    """Return the words of a line."""
    return "".join(part if isinstance(part, str) else part.text for part in parts(text))


def with_code(text: str) -> tuple[Words, ...]:
    """Return a sentence whose parts in backticks are code."""
    pieces = text.split("`")
    return tuple(Code(piece) if n % 2 else piece for n, piece in enumerate(pieces) if piece)
