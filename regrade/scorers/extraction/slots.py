r"""Places of a text in which a model writes its final answer, shared by all scorers that read text.

To add a marker, add a line to one of these tables, and an example to `tests/scorers/corpus.jsonl`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.pieces import Pieces

Statement = Literal["first", "last"]
"""The statement that counts, if a text has several."""

Table = Sequence[tuple[str, str | None]]
"""Kinds of slots, as pairs of patterns: for the text that opens a slot, and for its content, with the group `content`;
None: 200 characters.

RE2 searches a pattern that begins with a literal text much faster than others.
"""

_NESTED = r"(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*"
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^'\n]*'|\{[^\n]*|[^,}\n]*(?:,[0-9]{3}\b[^,}\n]*)*)"""
STRUCTURED: Table = (
    (r"\\f?boxed\s*\{", rf"(?P<content>{_NESTED})\}}"),
    (r"<[aA]nswer>", r"(?s:(?P<content>.*?))(?:</[aA]nswer>|\z)"),
    (r"""nswer["']\s*:""", rf"(?P<gap>\s*)(?P<content>{_VALUE})"),
)
r"""Slots with an end: the box, the tag, the field of JSON."""

TEX_TEXT = r"\A(?P<lead>\s*\$?\\(?:text|math)[a-z]{0,2}\{)(?P<content>[^{}]*)\}\$?\s*\z"
"""Content of a box that is text."""

_ANSWER = r"""(?i:answer)(?:\([sS]\))?["'*_`]*[ \t]*"""
_WILL_BE = r"(?:would|should|must|will|has to|ought to)(?: then)? be"
_IS = rf"(?i:(?:is|was|equals|{_WILL_BE}|(?:comes|works) (?:out )?(?:to|as))\b)"
IN_SENTENCE = _ANSWER + _IS
"""Marker inside a sentence: `the answer is`, `the answer would be`."""
_COLON = r"[:=\x{FF1A}]"
OF_SECTION = (
    _ANSWER + _COLON,
    r"\n[ *]*A:",
    r"\A[ *]*A:",
    r"\x{7B54}\x{6848}(?:\x{662F}|\x{4E3A})?[:\x{FF1A}]?",  # Chinese: answer, answer is
)
"""Markers of a section that holds the answer: `Answer:`, and `A:` at the start of a line."""
STATEMENTS: Table = (
    (f"{_ANSWER}(?:{_IS}|{_COLON})", None),
    *((marker, None) for marker in OF_SECTION[1:]),
)
"""Slots without an end."""
_ANSWERS = (
    # of the languages of MMMLU: de, fr, es, pt, it, id, sw, yo; ar, bn, hi, ja, ko, zh
    r"Antwort(?:en)?|R(?:é|e\x{301}?)ponse|Respuesta|Resposta|Risposta|Jawaban(?:nya)?|Jibu(?: sahihi)?|[IÌÍAÀ][\x{300}\x{301}]?d(?:á|a\x{301}?)h(?:ù|u\x{300}?)n"
    r"|(?:ال)?(?:إجابة|اجابة|جواب)(?: (?:النهائية|النهائي|الصحيحة|الصحيح))?|উত্তর|उत्तर|जवाब|答え|回答|解答|正解|정답|답변|답|答案|答复|答"
)
_ARE = r"(?:[:\x{FF1A}\x{983}]| (?:ist|est|es|é|è|adalah|ni|nì|jẹ́|هي|هو|है|হল|হলো)[ :]|は|은|는)"
LOCALISED: Table = ((rf"(?i:{_ANSWERS})[*_`\"']*[ \t]*{_ARE}", None),)
"""Markers of other languages, for letters of choices: `Antwort: B`."""
LONGEST = 5000
"""Longest answer that a Python function reads, in characters."""
_REACH = 200
"""Content of a slot without an end, in characters."""
_TRIES = 8
"""Slots of a text that are tried, one after the other, until one can be read."""


@dataclass(frozen=True, slots=True)
class Slots:
    """A slot of each text."""

    text: Pieces
    """Texts that were searched."""
    rest: Pieces
    """Text after the opening of the slot; null for texts without a slot."""
    content: Pieces
    """Content of the slot; null if the slot has no end."""


@dataclass(frozen=True, slots=True)
class Found:
    """Values read from pieces."""

    value: c.Strings
    """Values, such as numbers in canonical form; null if none was read."""
    place: Pieces
    """Part of the text from which each value was read."""
    refused: c.Mask
    """True for pieces with a statement that is not a single value, such as `8-4`: no other part of the text counts."""

    @property
    def open(self) -> c.Mask:
        """True for rows that are neither read nor refused."""
        return c.both(c.is_missing(self.value), c.negated(self.refused))

    def otherwise(self, other: "Found") -> "Found":
        """Return these values, and those of `other` in rows that are neither read nor refused."""
        kept = c.negated(self.open)
        place = self.place.where(kept).otherwise(other.place.where(self.open))
        return Found(
            c.choose(kept, self.value, other.value),
            place,
            c.either(self.refused, c.both(self.open, other.refused)),
        )


Reader = Callable[[Slots], Found]


def nothing(rows: int) -> Found:
    """Return no values."""
    texts: c.Strings = pa.nulls(rows, pa.string())
    return Found(texts, Pieces.whole(texts), c.falsy(pa.nulls(rows, pa.bool_())))


def read(
    texts: Pieces, table: Table, reader: Reader, statement: Statement = "last"
) -> tuple[Found, c.Mask]:
    """Read the last slot of each text that holds something to read, or the first such slot.

    Returns:
        The values, and a mask that is true for texts with any slot.
    """
    found = nothing(len(texts.text))
    has_slot = found.refused
    for _ in range(_TRIES):
        slots = find(texts, table, statement)
        if not c.is_any(slots.rest.present):
            break
        has_slot = c.either(has_slot, slots.rest.present)
        found = found.otherwise(reader(slots))
        again = c.both(slots.rest.present, found.open)
        if not c.is_any(again):
            break
        if statement == "last":
            # One byte less than the text up to the slot, so that its opening no longer matches.
            texts = texts.where(again).until(slots.rest.start - 1)
        else:
            texts = slots.rest.where(again)
    return found, has_slot


def find(texts: Pieces, table: Table, statement: Statement = "last") -> Slots:
    """Return the last slot of each text, or the first."""
    (opening, holds), *others = table
    best = _find(texts, opening, holds, statement)
    for opening, holds in others:
        other = _find(texts, opening, holds, statement)
        if c.is_any(other.rest.present):
            best = _better(best, other, statement)
    return best


def _find(texts: Pieces, opening: str, holds: str | None, statement: Statement) -> Slots:
    rest = texts.after_last(opening) if statement == "last" else texts.after_first(opening)
    if holds is None:
        return Slots(texts, rest, rest.shortened(_REACH))
    return Slots(texts, rest, rest.split(rf"\A{holds}")["content"])


def _better(first: Slots, second: Slots, statement: Statement) -> Slots:
    """Return the later, or the earlier, of two slots of each row."""
    places = []
    for slots in (first, second):
        present = slots.rest.present.to_numpy(zero_copy_only=False)
        place = slots.rest.start if statement == "last" else -slots.rest.start
        places.append(np.where(present, place, np.iinfo(np.int64).min))
    is_first = places[0] >= places[1]

    def picked(one: Pieces, other: Pieces) -> Pieces:
        text = c.choose(c.mask(is_first), one.text, other.text)
        return Pieces(text, np.where(is_first, one.start, other.start))

    return Slots(first.text, picked(first.rest, second.rest), picked(first.content, second.content))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text that gives its answer."""

    start: int
    """First character, from 0."""
    end: int
    """Character after the last."""
    answer: str
    """The answer in this part: its text, or several answers of a list, separated by commas."""


TextReader = Callable[[str], Part | None]
"""Reads the answer of a single text."""


def read_each(
    pieces: Pieces, reader: TextReader, refuses: Callable[[str], bool] = lambda _: False
) -> Found:
    """Read the answer of each piece with a Python function; if it finds none, `refuses` decides if further readers may try."""
    values: list[str | None] = []
    places: list[str | None] = []
    refused = np.zeros(len(pieces.text), np.bool_)
    starts = pieces.start.copy()
    for row, text in enumerate(pieces.text.to_pylist()):
        part = None if text is None else reader(text)
        if text is None or part is None or len(part.answer) > LONGEST:
            values.append(None)
            places.append(None)
            refused[row] = text is not None and refuses(text)
        else:
            values.append(part.answer)
            places.append(text[part.start : part.end])
            starts[row] += len(text[: part.start].encode())
    place = Pieces(pa.array(places, pa.string()), starts)
    return Found(pa.array(values, pa.string()), place, c.mask(refused))
