"""A page as a list of blocks. Rooms return the blocks of their results; the writers decide how a medium shows each.

Texts are untrusted: the writers escape them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

Tone = Literal["", "good", "bad", "open", "doubt", "note", "aside"]
"""`open` is a verdict that cannot tell, `doubt` a reason to doubt a result, `note` an explanation for readers of a page, `aside` what is
shown beside the result, such as the question of an answer."""


@dataclass(frozen=True, slots=True)
class _Part:
    text: str


class Strong(_Part):
    """Words in bold."""


class Code(_Part):
    """A command, id or name inside a line."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link; without an address, its text as code."""

    text: str
    address: str | None


class Highlight(_Part):
    """The part of an answer that the scorer read."""


class Gap(_Part):
    """A remark in place of a part that is left out of a text."""


class Badge(_Part):
    """A verdict or a state, such as `wrong` or `stale`."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval as shares of a scale, which an HTML page draws."""

    text: str
    at: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """An image in a text, as a `data:` address; where there is no room for it, its text."""

    text: str
    address: str


Words = str | Strong | Code | Link | Highlight | Gap | Badge | Interval | Picture
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
class Table:
    """A table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    text: Collection[str] = ()
    """Columns aligned left, by default the first; the others hold numbers."""
    headings: Sequence[str] = field(default=(), kw_only=True)
    """Columns that may become lines above the rows on a terminal, in this order."""
    lists: Collection[str] = field(default=(), kw_only=True)
    """Columns whose cells may go over several lines on a terminal, after each comma."""
    settings: Sequence[str] = field(default=(), kw_only=True)
    """The first columns, if they may become one on a terminal, with cells such as `dtype=bfloat16, in flight=4`."""

    def filled(self) -> Self:
        """Return the table without its empty columns."""
        places = [
            place for place in range(len(self.columns)) if any(row[place] for row in self.rows)
        ]
        return replace(
            self,
            columns=[self.columns[place] for place in places],
            rows=[[row[place] for place in places] for row in self.rows],
        )


@dataclass(frozen=True, slots=True)
class Quote:
    """A text of several lines, such as an answer, as it is."""

    title: Text
    """Line above it; "" for none."""
    text: Text
    tone: Tone = ""


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
    open: bool = False


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Lists of blocks side by side on a wide HTML page, else one below the other."""

    columns: "Sequence[Sequence[Block]]"


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that only a page has room for: a terminal leaves them out."""

    blocks: "Sequence[Block]"


Block = Heading | Line | Items | Table | Quote | Commands | Plot | Fold | SideBySide | Details


def parts(text: Text) -> Sequence[Words]:
    """Return the parts of a line."""
    return (text,) if isinstance(text, Words) else text


def plain(text: Text) -> str:
    """Return the words of a line."""
    return "".join(part if isinstance(part, str) else part.text for part in parts(text))


def with_code(text: str) -> tuple[Words, ...]:
    """Return a sentence whose parts in backticks are code."""
    pieces = text.split("`")
    return tuple(Code(piece) if n % 2 else piece for n, piece in enumerate(pieces) if piece)
