"""Blocks on a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from regrade.text import blocks as b
from regrade.text.layout import Kind, layout
from regrade.text.text import visible

if TYPE_CHECKING:
    from rich.console import Console

_STYLES: dict[b.Tone, str] = {
    "": "",
    "good": "bold green",
    "bad": "bold red",
    "open": "bold yellow",
    "doubt": "yellow",
    "note": "dim",
    "aside": "dim",
}
_OF_TABLES: dict[Kind, str] = {"columns": "bold", "heading": "cyan", "row": ""}


class TerminalWriter:
    """Writes blocks: nothing is cut; on a terminal, long lines are broken between words, but for those with something to copy."""

    def __init__(self, out: "Console") -> None:
        self._out = out
        self._attached = True
        """The next block needs no empty line above it."""

    def write(self, blocks: Sequence[b.Block]) -> None:
        """Print blocks; plots, commands, explanations and details are left to pages."""
        for block in blocks:
            match block:
                case b.Heading():
                    self._gap()
                    self._line(block.text, _STYLES[block.tone] or "bold")
                    self._attached = True
                case b.Line():
                    if block.tone != "note":
                        self._line(block.text, _STYLES[block.tone])
                case b.Items():
                    for line in block.lines:
                        self._line(("- ", *b.parts(line)), _STYLES[block.tone])
                case b.Table():
                    self._table(block)
                case b.Quote():
                    if block.title:
                        self._line(block.title, "bold")
                    self._line(block.text, _STYLES[block.tone], whole=True)
                case b.Fold():
                    self.write(block.blocks)
                case b.SideBySide():
                    for column in block.columns:
                        self.write(column)
                case b.Commands() | b.Plot() | b.Details():
                    pass

    def _gap(self) -> None:
        if not self._attached:
            self._out.print()

    def _line(self, text: b.Text, style: str, *, whole: bool = False) -> None:
        line = styled(text)
        copied = any(isinstance(part, b.Code | b.Link) for part in b.parts(text))
        if whole or copied or not self._out.is_terminal:
            self._out.print(line, style=style, soft_wrap=True)
        else:
            indent = len(line) - len(line.plain.lstrip(" "))
            below = Padding(line[indent:], (0, 0, 0, indent), expand=False)
            self._out.print(below, style=style, soft_wrap=False)
        self._attached = False

    def _table(self, table: b.Table) -> None:
        if not table.rows:
            return
        self._gap()
        for line in layout(table, self._out.width if self._out.is_terminal else None):
            self._out.print(line.text, style=_OF_TABLES[line.kind], markup=False)
        self._attached = False


def styled(text: b.Text) -> Text:
    """Return a line without control characters, such as those that begin terminal escape codes."""
    line = Text()
    for part in b.parts(text):
        match part:
            case str():
                line.append(visible(part))
            case b.Strong() | b.Highlight():
                line.append(visible(part.text), "bold")
            case b.Code():
                line.append(f"`{visible(part.text)}`")
            case b.Link():
                shown = part.text if part.address is None else f"{part.text}: {part.address}"
                line.append(visible(shown))
            case _:
                line.append(visible(part.text))
    return line
