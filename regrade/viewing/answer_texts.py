"""Texts of one answer as HTML, of bounded length."""

from dataclasses import dataclass
from typing import Any

import orjson
from markupsafe import Markup

from regrade.viewing.formatted import formatted
from regrade.viewing.visible import Span, marked, visible, with_tokens

SHOWN_CHARACTERS = 60_000
"""Longest text shown at once; a link shows all of it."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text as HTML."""

    html: Markup
    cut: int = 0
    """Characters that are not shown."""


class TextMaker:
    """Makes HTML of texts, of bounded length unless all of them is asked for."""

    def __init__(self, kind: str, full: bool) -> None:
        self._markdown, self._full = kind == "markdown", full

    def plain(self, text: str) -> Text:
        """Return a text in the form that the reader chose."""
        shown, cut = self.cut(text)
        return Text(formatted(shown) if self._markdown else visible(shown), cut)

    def sent(self, text: str) -> Text:
        """Return a part of a prompt: always as it was sent."""
        shown, cut = self.cut(text)
        return Text(with_tokens(shown), cut)

    def answer(self, text: str, mark: Span | None) -> Text:
        """Return an answer in the form that the reader chose, with a part of it marked."""
        shown, cut = self.cut(text)
        if mark is not None and mark[1] > len(shown):
            mark = None
        return Text(
            formatted(shown, mark) if self._markdown else marked(shown, mark, anchor=True), cut
        )

    def cut(self, text: str) -> tuple[str, int]:
        """Return the part of a text that is shown, and the number of characters that are not."""
        if self._full or len(text) <= SHOWN_CHARACTERS:
            return text, 0
        return text[:SHOWN_CHARACTERS], len(text) - SHOWN_CHARACTERS


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


def html_of(text: str | None) -> Markup | None:
    """Return a short text as HTML; None for None."""
    return None if text is None else visible(text)
