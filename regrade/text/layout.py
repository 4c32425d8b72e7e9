"""Layout of a table for a width in which nothing is cut.

If a table is too wide, columns with settings become one column, and columns with names become lines above the rows; then what
still does not fit goes into further tables below, each with the first column if that is text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rich.cells import cell_len

from regrade.text.blocks import Table, plain
from regrade.text.text import visible

GAP = "  "
INDENT = "  "
"""Before the rows below a heading."""
_SETTINGS = "settings"
Kind = Literal["columns", "heading", "row"]


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line of the table."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Grid(Table):
    """A table of plain cells, each on one line, without empty columns."""

    rows: Sequence[Sequence[str]]

    def cells(self, name: str) -> list[str]:
        """Return the cells of a column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def compact(table: Table) -> Grid:
    """Return a table without its empty columns and without control characters."""
    table = table.filled()
    return Grid(
        table.columns,
        [[" ".join(visible(plain(cell)).split("\n")) for cell in row] for row in table.rows],
        table.text or table.columns[:1],
        headings=[name for name in table.headings if name in table.columns],
        lists=table.lists,
        settings=[name for name in table.settings if name in table.columns],
    )


def layout(table: Table, width: int | None = None) -> Iterator[TableLine]:
    """Yield the lines of a table.

    Args:
        table: The table.
        width: Columns of the terminal; a line is only longer if a single cell is. None: any.
    """
    grid = compact(table)
    if width is not None and len(grid.settings) > 1 and _width(grid, grid.columns) > width:
        grid = _in_one_column(grid)
    names = list(grid.columns)
    above: list[str] = []
    for heading in grid.headings:
        if width is None or _width(grid, names) <= width - (len(INDENT) if above else 0):
            break
        names.remove(heading)
        above.append(heading)
    room = None if width is None else width - (len(INDENT) if above else 0)

    def fits(shown: Sequence[str]) -> bool:
        return room is None or _width(grid, shown) <= room

    for number, (shown, rows) in enumerate(in_parts(grid, names, above, fits)):
        if number:
            yield TableLine("row", "")
        part = replace(grid, rows=[grid.rows[row] for row in rows])
        yield from _part(part, shown, above, room)


def in_parts(
    table: Grid, names: Sequence[str], above: Sequence[str], fits: Callable[[Sequence[str]], bool]
) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """Yield columns and numbers of the rows of each part of a table; all parts begin with columns that tell the rows apart.

    Args:
        table: The table.
        names: Its columns, without those above the rows.
        above: Columns that stand above the rows.
        fits: Returns True if columns fit side by side.
    """
    every = range(len(table.rows))
    if fits(names):
        yield names, every
        return
    key = _key(table, names, above, fits)
    parts = _divided(names, key, fits)
    told = _count(table, [*above, *key])
    if told < len(table.rows) and any(
        name not in table.text or _count(table, [*above, *key, name]) > told
        for shown in parts[1:]
        for name in shown[len(key) :]
    ):
        key = _telling(table, names, above) or key  # however wide it is
        parts = _divided(names, key, fits)
    yield parts[0], every
    for shown in parts[1:]:
        yield shown, _told(table, [*above, *shown], shown[len(key) :])


def _divided(
    names: Sequence[str], key: Sequence[str], fits: Callable[[Sequence[str]], bool]
) -> list[list[str]]:
    """Return the columns of each part, of which each begins with the key."""
    parts = [list(key)]
    for name in (name for name in names if name not in key):
        if len(parts[-1]) > len(key) and not fits([*parts[-1], name]):
            parts.append(list(key))
        parts[-1].append(name)
    return parts


def _key(
    table: Grid, names: Sequence[str], above: Sequence[str], fits: Callable[[Sequence[str]], bool]
) -> list[str]:
    """Return the first columns with text that tell the rows apart, or as many of them as leave room for each other column."""
    key: list[str] = []
    for place, name in enumerate(names[:-1]):
        rest = names[place + 1 :]
        if name not in table.text or (key and not all(fits([*key, name, other]) for other in rest)):
            break
        key.append(name)
        if _count(table, [*above, *key]) == len(table.rows):
            break
    return key


def _telling(table: Grid, names: Sequence[str], above: Sequence[str]) -> list[str]:
    """Return the columns with text that tell all rows apart, without those that tell none; empty if there are none such."""
    telling: list[str] = []
    for name in names:
        found = _count(table, [*above, *telling])
        if name in table.text and _count(table, [*above, *telling, name]) > found:
            telling.append(name)
    return telling if _count(table, [*above, *telling]) == len(table.rows) else []


def _count(table: Grid, names: Sequence[str]) -> int:
    """Return the number of different rows of some columns."""
    return len(set(_cells(table, names)))


def _told(table: Grid, shown: Sequence[str], values: Sequence[str]) -> Sequence[int]:
    """Return the numbers of the rows of a further part that say something: those with a value, and of equal ones in a row the first.

    Points of settings are all kept, so that a point without a value, which failed, is not missed.
    """
    if not shown or shown[0] in (_SETTINGS, *table.settings) or len(values) == len(shown):
        return range(len(table.rows))
    told = enumerate(zip(_cells(table, shown), _cells(table, values), strict=True))
    with_value = [(cells, row) for row, (cells, value) in told if any(value)]
    return [next(same)[1] for _, same in groupby(with_value, key=lambda entry: entry[0])]


def _cells(table: Grid, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the cells of some columns for each row."""
    places = [table.columns.index(name) for name in names]
    return [tuple(row[place] for place in places) for row in table.rows]


def _in_one_column(table: Grid) -> Grid:
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


def _part(
    table: Grid, names: Sequence[str], above: Sequence[str], room: int | None
) -> Iterator[TableLine]:
    places = [table.columns.index(name) for name in names]
    widths = _widths(table, names, room)
    indent = INDENT if above else ""
    yield TableLine("columns", indent + _joined(table, names, names, widths))
    over = [table.columns.index(name) for name in above]
    for heading, rows in groupby(table.rows, key=lambda row: [row[place] for place in over]):
        title = " · ".join(heading)
        fits = room is None or cell_len(title) <= room + len(INDENT)
        for text in [title] if fits else heading:
            if above:
                yield TableLine("heading", text)
        for row in rows:
            cells = [
                _pieces(row[place], width) if name in table.lists else [row[place]]
                for place, name, width in zip(places, names, widths, strict=True)
            ]
            for line in range(max(map(len, cells))):
                texts = [cell[line] if line < len(cell) else "" for cell in cells]
                yield TableLine("row", indent + _joined(table, names, texts, widths))


def _joined(table: Grid, names: Sequence[str], cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = []
    for name, cell, width in zip(names, cells, widths, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(cell + space if name in table.text else space + cell)
    return GAP.join(padded).rstrip()


def _width(table: Grid, names: Sequence[str]) -> int:
    """Return the least width of some columns side by side."""
    return sum(_least(table, name) for name in names) + len(GAP) * (len(names) - 1)


def _widths(table: Grid, names: Sequence[str], room: int | None) -> list[int]:
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


def _most(table: Grid, name: str) -> int:
    return max(map(cell_len, [name, *table.cells(name)]))


def _least(table: Grid, name: str) -> int:
    if name not in table.lists:
        return _most(table, name)
    pieces = [piece for cell in table.cells(name) for piece in _pieces(cell, 0)]
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
