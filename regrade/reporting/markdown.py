"""Tables and untrusted texts in markdown."""

import re
from collections.abc import Collection, Sequence

_SPECIAL = re.compile(r"[&\\`*_{}\[\]<>#|!~$]")
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


def tables_of(
    parts: Sequence[Sequence[str]],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Collection[str] = (),
) -> list[str]:
    """Return the lines of a table in several, one below the other, because a page is narrow.

    Args:
        parts: Columns of each table.
        columns: All columns.
        rows: Cells in the order of `columns`.
        text: Columns with text, as in `markdown_table`.
    """
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
