"""Texts of one answer as HTML, of bounded length."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any, TypeVar

import orjson
from markupsafe import Markup

from regrade.pages.viewer.formatted import formatted
from regrade.records.messages import Part, PartedMessage, PartKind, parts_of
from regrade.records.patterns import compiled
from regrade.records.trajectory import arguments_text, read_trajectory
from regrade.text.hidden import Span, as_html, marked

_Item = TypeVar("_Item")
Pictures = Mapping[str, Markup]
"""HTML in the place of an image of a question, by its sha256. A model's own text has none."""
EMPTY: Pictures = MappingProxyType({})
SHOWN_CHARACTERS = 60_000
"""Longest text shown at once; a link shows all of it."""
SPECIAL_TOKEN = compiled(
    r"<\|[^|<>\s]{1,48}\|>|<\uff5c[^\uff5c<>]{1,48}\uff5c>|</?s>|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>|</?think>"
)
"""Special tokens of common chat templates, as text."""


@dataclass(frozen=True, slots=True)
class HtmlText:
    """A text as HTML."""

    html: Markup
    cut: int = 0
    """Characters that are not shown."""


class TextMaker:
    """Makes HTML of texts, of bounded length unless all of them is asked for."""

    def __init__(self, kind: str, full: bool) -> None:
        self._markdown, self._full = kind == "markdown", full

    def plain(self, text: str, pictures: Pictures = EMPTY) -> HtmlText:
        """Return a text in the form that the reader chose; `pictures` stand for the marks of their images."""
        shown, cut = self.cut(text)
        return HtmlText(_with(pictures, shown, formatted if self._markdown else as_html), cut)

    def sent(self, text: str, pictures: Pictures = EMPTY) -> HtmlText:
        """Return a part of a prompt: always as it was sent, but for images."""
        shown, cut = self.cut(text)
        return HtmlText(_with(pictures, shown, with_tokens), cut)

    def answer(self, text: str, mark: Span | None) -> HtmlText:
        """Return an answer in the form that the reader chose, with a part of it marked."""
        shown, cut = self.cut(text)
        if mark is not None and mark[1] > len(shown):
            mark = None
        return HtmlText(
            formatted(shown, mark) if self._markdown else marked(shown, mark, anchor=True), cut
        )

    def first(self, items: Sequence[_Item], most: int) -> Sequence[_Item]:
        """Return the items that are shown."""
        return items if self._full else items[:most]

    def cut(self, text: str) -> tuple[str, int]:
        """Return the part of a text that is shown, and the number of characters that are not."""
        if self._full or len(text) <= SHOWN_CHARACTERS:
            return text, 0
        return text[:SHOWN_CHARACTERS], len(text) - SHOWN_CHARACTERS


def _with(pictures: Pictures, text: str, html: Callable[[str], Markup]) -> Markup:
    parts = parts_of(text, pictures.keys())
    return Markup("").join(
        html(part.text) if part.sha256 is None else pictures[part.sha256] for part in parts
    )


def thought_and_answer(
    texts: dict[str, Any], read: Span, *, verdict: bool = False
) -> tuple[str | None, str | None, Span | None, bool]:
    """Return thought, answer, the marked part of the answer, and True if the thought never ends.

    A thought is in a column of its own, or in the text up to the last `</think>`. A judge's verdict that begins as JSON has no
    thought in it: its explanation may quote the marks, as the scorer `judge` knows too.

    Args:
        texts: Columns of the answer.
        read: First character that the scorer read, and the one after the last; (-1, -1) if unknown.
        verdict: The answer is a judge's verdict.
    """
    text, thought = texts["text"], texts["reasoning"]
    mark = read if 0 <= read[0] < read[1] else None
    if text is None:
        return thought, None, None, thought is not None
    if verdict and not texts["reasoning_open"] and text.lstrip().startswith(("{", "```")):
        return thought or None, text, mark, False
    end = text.rfind("</think>")
    cut = 0 if end < 0 else end + len("</think>")
    is_open = "<think>" in text[cut:] or (texts["reasoning_open"] and end < 0 and thought is None)
    if is_open:
        cut = len(text)
    if cut:
        thought = f"{thought}\n{text[:cut]}" if thought else text[:cut]
        text = text[cut:]
    if mark is not None:
        mark = (mark[0] - cut, mark[1] - cut) if mark[0] >= cut else None
    return thought or None, text, mark, bool(is_open)


def indented(document: str) -> str:
    """Return JSON with line breaks; as it is if it is none."""
    try:
        return orjson.dumps(orjson.loads(document), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return document


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part of a message."""

    kind: PartKind
    title: str
    """Name of a part that is folded; "" for a text that is shown."""
    text: HtmlText


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message of a prompt, or of an agent's conversation."""

    role: str
    parts: tuple[ShownPart, ...]


SHOWN_MESSAGES = 200
"""Messages of a conversation that are shown at once; a link shows all of them."""


def conversation_of(
    text: str | None, makers: TextMaker
) -> tuple[tuple[ShownMessage, ...], int, HtmlText | None]:
    """Return the messages of a trajectory, the number of those that are not shown, and its text if it is no trajectory."""
    if text is None:
        return (), 0, None
    messages = read_trajectory(text)
    if messages is None:
        return (), 0, makers.sent(text)
    shown = makers.first(messages, SHOWN_MESSAGES)
    found = tuple(
        ShownMessage(m.role, tuple(_shown_part(part, makers) for part in m.parts)) for m in shown
    )
    return found, len(messages) - len(shown), None


def asked_of(
    messages: Iterable[PartedMessage], makers: TextMaker, pictures: Pictures
) -> Iterator[ShownMessage]:
    """Yield the messages of a prompt: texts and images that follow each other as one text, as it was sent.

    Args:
        messages: The messages; empty ones are left out.
        makers: Makes HTML of texts.
        pictures: What stands for the images.
    """
    for message in messages:
        parts: list[ShownPart] = []
        for is_prose, group in groupby(message.parts, lambda part: part.kind in ("text", "image")):
            if is_prose:
                text = "".join(part.text for part in group)
                parts.append(ShownPart("text", "", makers.sent(text, pictures)))
            else:
                parts += (_shown_part(part, makers) for part in group)
        if parts:
            yield ShownMessage(message.role, tuple(parts))


def _shown_part(part: Part, makers: TextMaker) -> ShownPart:
    cut = f", {part.cut:,} characters left out" if part.cut else ""
    if part.kind == "tool_call":
        arguments = arguments_text(part)
        return ShownPart(part.kind, f"call of {part.name}{cut}", makers.sent(indented(arguments)))
    if part.kind == "tool_result":
        of = f" of {part.name}" if part.name else ""
        what = "error" if part.is_error else "result"
        return ShownPart(part.kind, f"{what}{of}{cut}", makers.sent(part.text))
    if part.kind == "reasoning":
        return ShownPart(part.kind, f"thought{cut}", makers.plain(part.text))
    return ShownPart(part.kind, "", makers.plain(part.text))


def html_of(text: str | None) -> Markup | None:
    """Return a short text as HTML; None for None."""
    return None if text is None else as_html(text)


def with_tokens(text: str) -> Markup:
    """Return a text as HTML, with special tokens dimmed."""
    parts: list[Markup] = []
    at = 0
    for found in SPECIAL_TOKEN.finditer(text):
        parts += [
            as_html(text[at : found.start()]),
            Markup('<span class="tok">{}</span>').format(as_html(found[0])),
        ]
        at = found.end()
    return Markup("").join([*parts, as_html(text[at:])])
