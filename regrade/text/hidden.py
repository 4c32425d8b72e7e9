"""Untrusted text as safe HTML: escaped, and with characters that are invisible or change the order of others shown.

Trojan Source (https://arxiv.org/abs/2111.00169) and hidden instructions use such characters; a reader has to see them.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from markupsafe import Markup, escape

_KEPT = "\n\t"
_PLAIN = frozenset([*map(chr, range(0x20, 0x7F)), *_KEPT])
_HTML = {ord(special): str(escape(special)) for special in "&<>'\""}
_COLOURED = "\ufe0f"
"""Asks for the coloured form of the emoji before it, where it hides nothing."""
_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc"
"""Characters that look like nothing, although their category is that of letters or marks."""
Span = tuple[int, int]


def as_html(text: str) -> Markup:
    """Return a text as HTML: nothing in it is markup, and every hidden character is a badge with its code point."""
    if text.isascii() and text.isprintable():
        return escape(text)
    return Markup("".join(_escaped(text)))


def marked(text: str, mark: Span | None = None, *, anchor: bool = False) -> Markup:
    """Return a text as HTML, with a part of it marked.

    Args:
        text: Any text.
        mark: First character of the marked part and the one after it.
        anchor: Links may lead to the marked part, by the name `read`.
    """
    if mark is None:
        return as_html(text)
    start, end = max(0, mark[0]), min(len(text), mark[1])
    if start >= end:
        return as_html(text)
    inside = Markup("<mark{}>{}</mark>").format(
        Markup(' id="read"') if anchor else "", as_html(text[start:end])
    )
    return as_html(text[:start]) + inside + as_html(text[end:])


def one_line(text: str, limit: int, mark: Span | None = None) -> Markup:
    """Return about `limit` characters on one line: the start, or a part with the marked one near its start.

    `…` stands for what was cut.
    """
    start = 0
    if mark is not None and mark[1] > limit // 2:
        start = max(0, mark[0] - limit // 3)
    stop = min(len(text), start + limit)
    shifted = None if mark is None else (mark[0] - start, mark[1] - start)
    shown = marked(_flat(text[start:stop]), shifted)
    before, after = ("…" if start else ""), ("…" if stop < len(text) else "")
    return Markup("{}{}{}").format(before, shown, after)


def end_of(text: str, limit: int) -> Markup:
    """Return the last `limit` characters on one line, with `…` if something was cut."""
    return Markup("{}{}").format("…" if len(text) > limit else "", as_html(_flat(text[-limit:])))


def highlighted(parts: Iterable[tuple[bool, str]]) -> Markup:
    """Return parts of a text as HTML; those with True are highlighted."""
    shown = [
        Markup('<span class="diff">{}</span>').format(as_html(text)) if changed else as_html(text)
        for changed, text in parts
    ]
    return Markup("").join(shown)


def is_hidden(character: str) -> bool:
    """Return True if a character is a control, changes the order of others, has no width, or is not assigned."""
    if character in _KEPT:
        return False
    return (
        unicodedata.category(character) in _CATEGORIES
        or character in _FILLERS
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or "\u180b" <= character <= "\u180f"
    )


def _flat(text: str) -> str:
    """Return a text of the same length without line breaks and tabs."""
    return text.replace("\n", " ").replace("\t", " ")


def _escaped(text: str) -> Iterator[str]:
    characters = {
        character: _shown(character) for character in set(text) if character not in _PLAIN
    }
    table = _HTML | {
        ord(character): shown for character, shown in characters.items() if shown is not None
    }
    first, *others = text.split(_COLOURED)
    yield first.translate(table)
    for before, part in pairwise([first, *others]):
        is_colour = bool(before) and _is_symbol(before[-1])
        yield _COLOURED if is_colour else _COLOURED.translate(table)
        yield part.translate(table)


@lru_cache(maxsize=4096)
def _shown(character: str) -> str | None:
    """Return the HTML of a character that does not show itself, or None."""
    name = unicodedata.name(character, "CONTROL CHARACTER" if ord(character) < 0xA0 else "NO NAME")
    title = f"U+{ord(character):04X} {name}"
    if is_hidden(character):
        return f'<span class="hid" title="{escape(title)}">U+{ord(character):04X}</span>'
    if unicodedata.category(character) == "Zs":
        return f'<span class="sp" title="{escape(title)}">{character}</span>'
    return None


def _is_symbol(character: str) -> bool:
    return (
        unicodedata.category(character) == "So"
        or character in "#*0123456789\u203c\u2049\u2194\u00a9\u00ae"
    )
