"""Blocks as markdown, and untrusted texts in it."""

import html
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from regrade.text import blocks as b
from regrade.text.hidden import is_hidden
from regrade.text.layout import compact, in_parts
from regrade.text.text import visible

MAX_PAGE = 500_000
"""Longest page, in characters; GitHub accepts 1 MiB."""
PAGE_WIDTH = 700
"""Widest table on a page of Prefect in a window of 1,280 pixels; wider ones scroll sideways."""
_FOLD_END = "\n\n</details>\n\n"
_CHARACTER, _PADDING = 7.4, 24
"""Widths of a character and around a cell on such a page."""
_ESCAPED = {
    **{ord(special): f"\\{special}" for special in "\\`*_{}[]#|!~$"},
    **{ord(special): html.escape(special) for special in "&<>"},
}
_MARKS: dict[b.Tone, str] = {"good": "✅ ", "bad": "❌ ", "open": "❔ "}


def markdown(
    blocks: Sequence[b.Block], limit: int = MAX_PAGE, width: float | None = PAGE_WIDTH
) -> str:
    """Return blocks as a page.

    Args:
        blocks: Content.
        limit: Longest page in characters, without its plots; blocks beyond it are left out, with a remark.
        width: Widest table in pixels; one that is wider is continued in further ones. None: any.
    """
    page = _Page(limit, width)
    page.write(blocks)
    return "\n".join(page.lines)


class _Page:
    """Lines of a page, as many as have room."""

    def __init__(self, room: int, width: float | None) -> None:
        self.lines: list[str] = []
        self._room = room
        self._width = width

    def write(self, blocks: Sequence[b.Block]) -> bool:
        """Add blocks; return False if some had no room."""
        for block in blocks:
            match block:
                case b.Details():
                    whole = self.write(block.blocks)
                case b.SideBySide():
                    whole = all(map(self.write, block.columns))
                case b.Fold():
                    # A line that begins with a block of HTML is HTML to its end.
                    title = html.escape(" ".join(_whole(block.title).split()), quote=False)
                    opening = f"<details{' open' * block.open}><summary>{title}</summary>"
                    self._room -= len(opening) + len(_FOLD_END)
                    self.lines += [opening, ""]
                    whole = self.write(block.blocks)
                    self.lines += ["</details>", ""]
                case _:
                    whole = self._add(block)
            if not whole:
                return False
        return True

    def _add(self, block: b.Block) -> bool:
        lines = list(_lines(block, self._width))
        if not isinstance(block, b.Plot):
            self._room -= sum(len(line) + 1 for line in lines) + 1
        if self._room < 0:
            lines = ["The rest is too long for this page."]
        self.lines += [*lines, ""] if lines else []
        return self._room >= 0


def _lines(block: b.Block, width: float | None) -> Iterator[str]:
    match block:
        case b.Heading():
            yield f"{'#' * block.level} {_MARKS.get(block.tone, '')}{inline(block.text)}"
        case b.Line():
            yield _MARKS.get(block.tone, "") + inline(block.text)
        case b.Items():
            yield from (f"- {inline(line)}" for line in block.lines)
        case b.Table() if block.rows:
            yield "\n\n".join("\n".join(part) for part in _tables(block, width))
        case b.Quote():
            if block.title:
                yield from (f"{inline(block.title)}:", "")
            # Indented, so that the text cannot end it.
            yield from (f"    {line}" for line in _whole(block.text).split("\n"))
        case b.Commands() if block.lines:
            fence = "```"
            while any(fence in line for line in block.lines):  # which would end the commands
                fence += "`"
            yield from (fence, *map(visible, block.lines), fence)
        case b.Plot():
            yield f"![{escape(block.title)}]({block.address})"


def inline(text: b.Text) -> str:
    """Return a line with escaped texts."""
    return "".join(map(_part, b.parts(text)))


def _part(part: b.Words) -> str:
    match part:
        case b.Strong():
            return f"**{escape(part.text)}**"
        case b.Code():
            return _code(part.text)
        case b.Link():
            if part.address is None or not part.address.startswith(("https://", "http://")):
                return _code(part.text)
            return f"[{escape(part.text)}]({quote(part.address, safe=':/?#@%&=+,;~')})"
    return _keeping_ends(part if isinstance(part, str) else part.text)


def _whole(text: b.Text) -> str:
    """Return a text with the code points of its hidden characters."""
    return "".join(f"[U+{ord(c):04X}]" if is_hidden(c) else c for c in b.plain(text))


def _keeping_ends(text: str) -> str:
    """Return an escaped part of a line, with the spaces between it and its neighbours."""
    ends = (" " * end.isspace() for end in (text[:1], text[-1:]))
    return escape(text).join(ends) if text.strip() else " "


def _code(text: str) -> str:
    # Inside code, a bar still ends a table cell, and a backtick ends the code.
    line = " ".join(visible(text).split())
    return escape(line) if {"|", "`"} & set(line) or not line else f"`{line}`"


def _tables(table: b.Table, width: float | None) -> Iterator[list[str]]:
    """Yield the lines of each part of a table."""
    grid, cells = compact(table), table.filled().rows

    def fits(names: Sequence[str]) -> bool:
        sizes = (max(map(len, [name, *grid.cells(name)])) for name in names)
        return width is None or sum(_PADDING + _CHARACTER * size for size in sizes) <= width

    for names, rows in in_parts(grid, grid.columns, (), fits):
        places = [grid.columns.index(name) for name in names]
        yield [
            f"| {' | '.join(names)} |",
            "|" + "".join(" --- |" if name in grid.text else " ---: |" for name in names),
            *(f"| {' | '.join(inline(cells[row][at]).strip() for at in places)} |" for row in rows),
        ]


def escape(text: str) -> str:
    """Escape an untrusted text, so that markdown and HTML show it unchanged, also in a table cell.

    Characters with a meaning in HTML become named entities, others get a backslash: Prefect's page decodes these
    entities only, and shows numeric ones as they are.
    """
    return " ".join(visible(text).split()).translate(_ESCAPED)
