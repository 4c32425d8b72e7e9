"""Layout of a table for a width in which nothing is cut.

If a table is too wide, columns with settings become one column, and columns with names become lines above the rows; then what
still does not fit goes into further tables below, each with the first column if that is text.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rich.cells import cell_len

GAP = "  "
INDENT = "  "
"""Before the rows below a heading."""
_SETTINGS = "settings"
Kind = Literal["columns", "heading", "row"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table to lay out. Cells are plain text on one line."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Collection[str]
    """Columns aligned left; the others hold numbers."""
    headings: Sequence[str] = ()
    """Columns that may become lines above the rows, in this order."""
    lists: Collection[str] = ()
    """Columns whose cells may go over several lines, after each comma."""
    settings: Sequence[str] = ()
    """The first columns, if they may become one, with cells such as `dtype=bfloat16, in flight=4`."""


def layout(table: Table, width: int | None = None) -> Iterator[Line]:
    """Yield the lines of a table.

    Args:
        table: The table.
        width: Columns of the terminal; a line is only longer if a single cell is. None: any.
    """
    if width is not None and len(table.settings) > 1 and _width(table, table.columns) > width:
        table = _in_one_column(table)
    names = list(table.columns)
    above: list[str] = []
    for heading in table.headings:
        if width is None or _width(table, names) <= width - (len(INDENT) if above else 0):
            break
        names.remove(heading)
        above.append(heading)
    room = None if width is None else width - (len(INDENT) if above else 0)
    for number, shown in enumerate(_parts(table, names, room)):
        if number:
            yield Line("row", "")
        part = replace(table, rows=_told(table, shown, above)) if number else table
        yield from _part(part, shown, above, room)


def _in_one_column(table: Table) -> Table:
    """Return the table with its settings in one column, which all parts of the table begin with."""
    count = len(table.settings)
    joined = [
        ", ".join(map("=".join, zip(table.settings, row, strict=False))) for row in table.rows
    ]
    return replace(
        table,
        columns=[_SETTINGS, *table.columns[count:]],
        rows=[[cell, *row[count:]] for cell, row in zip(joined, table.rows, strict=True)],
        text=[_SETTINGS, *table.text],
        lists=[_SETTINGS, *table.lists],
        settings=(),
    )


def _parts(table: Table, names: Sequence[str], room: int | None) -> Iterator[list[str]]:
    """Yield the columns of each table; if the first column is text, all begin with it."""
    if room is None or _width(table, names) <= room:
        yield list(names)
        return
    key = names[:1] if len(names) > 1 and names[0] in table.text else []
    shown = list(key)
    for name in names[len(key) :]:
        if len(shown) > len(key) and _width(table, [*shown, name]) > room:
            yield shown
            shown = list(key)
        shown.append(name)
    yield shown


def _told(table: Table, names: Sequence[str], above: Sequence[str]) -> list[Sequence[str]]:
    """Return the rows of a further table that say something: those with a value, and of equal ones in a row the first.

    Points of settings are all kept, so that a point without a value, which failed, is not missed.
    """
    if names[0] not in table.text or names[0] == _SETTINGS:
        return list(table.rows)
    places = [table.columns.index(name) for name in (*above, *names)]
    values = [table.columns.index(name) for name in names[1:]]
    rows = [row for row in table.rows if any(row[place] for place in values)]
    return [
        next(same) for _, same in groupby(rows, key=lambda row: [row[place] for place in places])
    ]


def _part(
    table: Table, names: Sequence[str], above: Sequence[str], room: int | None
) -> Iterator[Line]:
    places = [table.columns.index(name) for name in names]
    widths = _widths(table, names, room)
    indent = INDENT if above else ""
    yield Line("columns", indent + _joined(table, names, names, widths))
    over = [table.columns.index(name) for name in above]
    for heading, rows in groupby(table.rows, key=lambda row: [row[place] for place in over]):
        title = " · ".join(heading)
        fits = room is None or cell_len(title) <= room + len(INDENT)
        for text in [title] if fits else heading:
            if above:
                yield Line("heading", text)
        for row in rows:
            cells = [
                _pieces(row[place], width) if name in table.lists else [row[place]]
                for place, name, width in zip(places, names, widths, strict=True)
            ]
            for line in range(max(map(len, cells))):
                texts = [cell[line] if line < len(cell) else "" for cell in cells]
                yield Line("row", indent + _joined(table, names, texts, widths))


def _joined(table: Table, names: Sequence[str], cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = []
    for name, cell, width in zip(names, cells, widths, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(cell + space if name in table.text else space + cell)
    return GAP.join(padded).rstrip()


def _width(table: Table, names: Sequence[str]) -> int:
    """Return the least width of some columns side by side."""
    return sum(_least(table, name) for name in names) + len(GAP) * (len(names) - 1)


def _widths(table: Table, names: Sequence[str], room: int | None) -> list[int]:
    """Return the width of each column; columns with lists get what is left."""
    least = {name: _least(table, name) for name in names}
    left = None if room is None else room - sum(least.values()) - len(GAP) * (len(names) - 1)
    widths = []
    for name in names:
        width = least[name]
        if name in table.lists:
            more = _most(table, name) - width
            given = more if left is None else min(more, max(0, left))
            width += given
            left = None if left is None else left - given
        widths.append(width)
    return widths


def _cells(table: Table, name: str) -> list[str]:
    place = table.columns.index(name)
    return [row[place] for row in table.rows]


def _most(table: Table, name: str) -> int:
    return max(map(cell_len, [name, *_cells(table, name)]))


def _least(table: Table, name: str) -> int:
    if name not in table.lists:
        return _most(table, name)
    pieces = [piece for cell in _cells(table, name) for piece in _pieces(cell, 0)]
    return max(map(cell_len, [name, *pieces]))


def _pieces(cell: str, width: int) -> list[str]:
    """Return the lines of a cell, broken after commas if it is longer than the width."""
    lines: list[str] = []
    parts = cell.split(", ")
    for number, part in enumerate(parts):
        text = part if number == len(parts) - 1 else f"{part},"
        if lines and cell_len(f"{lines[-1]} {text}") <= width:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines
