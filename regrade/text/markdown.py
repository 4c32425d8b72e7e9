"""Tables and untrusted texts in markdown."""

import re
from collections.abc import Collection, Sequence

_SPECIAL = re.compile(r"[&\\`*_{}\[\]<>#|!~$]")
PAGE_WIDTH = 700
"""Widest table on a page of Prefect in a window of 1,280 pixels."""
_CHARACTER, _PADDING = 7.4, 24
"""Widths of a character and around a cell on such a page."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table with escaped cells; no lines without rows.

    Args:
        columns: Names of the columns.
        rows: Cells in the order of the columns.
        text: Columns with text, aligned left; by default only the first. The others hold numbers.
    """
    if not rows:
        return []
    left = text or columns[:1]
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "".join(" --- |" if name in left else " ---: |" for name in columns),
        *("| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows),
    ]


def page_tables(
    groups: Sequence[Sequence[str]],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    key: Sequence[str],
    text: Collection[str] = (),
) -> list[str]:
    """Return the lines of a table, in several if it is wider than Prefect's page, which scrolls wide tables sideways.

    Args:
        groups: All columns that are shown, in groups that stay together. The first group holds those of `key`.
        columns: Names of the cells in a row.
        rows: Cells in the order of `columns`.
        key: Columns with which each further table begins.
        text: Columns with text, as in `markdown_table`.
    """
    sizes = {
        name: max([len(name), *(len(row[place]) for row in rows)])
        for place, name in enumerate(columns)
    }

    def fits(names: Sequence[str]) -> bool:
        return sum(_PADDING + _CHARACTER * sizes[name] for name in names) <= PAGE_WIDTH

    parts = [[*groups[0]]]
    for group in groups[1:]:
        if fits([*parts[-1], *group]):
            parts[-1] += group
        else:
            parts.append([*key, *group])
    lines: list[str] = []
    for part in parts:
        places = [columns.index(name) for name in part]
        cells = [[row[place] for place in places] for row in rows]
        lines += [*markdown_table(part, cells, text=text), ""]
    return lines


def escape(text: str) -> str:
    """Escape an untrusted text, so that markdown and HTML show it unchanged, also in a table cell.

    Characters with a meaning in HTML become named entities, others get a backslash: Prefect's page decodes these
    entities only, and shows numeric ones as they are.
    """
    visible = "".join(
        c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return _SPECIAL.sub(_escaped, " ".join(visible.split()))


def _escaped(special: re.Match[str]) -> str:
    return _ENTITIES.get(special[0], f"\\{special[0]}")
