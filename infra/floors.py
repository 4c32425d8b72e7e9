"""Draw the import layers of the code: `python -m infra.floors [--write]`.

A room is a folder or a module of `regrade`, or the package `flows` or `tasks`. A room is one floor above the highest room
that it imports. CONTRIBUTING.md holds the drawing; a test fails if the drawing is out of date.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

PACKAGES = ("flows", "tasks", "regrade")
PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BEGIN, END = "<!-- floors: python -m infra.floors --write -->", "<!-- end of floors -->"


class CircleError(Exception):
    """Rooms import each other, so that they have no order."""


def rooms() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imported: dict[str, set[str]] = {}
    for module in graph.modules:
        room = _room(module)
        below = imported.setdefault(room, set())
        below |= {_room(name) for name in graph.find_modules_directly_imported_by(module)} - {room}
    imported.pop("regrade")
    return {room: below - {"regrade"} for room, below in imported.items()}


def _room(module: str) -> str:
    first, *more = module.split(".")
    return more[0] if first == "regrade" and more else first


def floors(imported: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the rooms of each floor, the ground floor first.

    Raises:
        CircleError: If rooms import each other.
    """
    heights: dict[str, int] = {}
    left = dict(imported)
    while left:
        ready = [room for room, below in left.items() if below <= heights.keys()]
        if not ready:
            raise CircleError(f"rooms that import each other: {', '.join(sorted(left))}")
        for room in ready:
            heights[room] = 1 + max((heights[below] for below in left.pop(room)), default=-1)
    return [
        sorted(room for room in heights if heights[room] == floor)
        for floor in range(max(heights.values()) + 1)
    ]


def drawing() -> str:
    """Return the floors as a block of markdown, the highest floor first."""
    imported = rooms()
    levels = floors(imported)
    width = max(len("   ".join(level)) for level in levels)
    rule = "-" * (width + 4)
    lines = [
        f"{len(imported)} rooms on {len(levels)} floors, {sum(map(len, imported.values()))} arrows, all of them down"
    ]
    for number, level in reversed(list(enumerate(levels))):
        lines += [rule, f"{number:>2}  {'   '.join(level)}"]
    return "\n".join(["```", *lines, rule, "```"])


def page(text: str) -> str:
    """Return the text of CONTRIBUTING.md with the current drawing."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawing()}\n{END}{after}"


def main() -> int:
    """Print the drawing, or write it into CONTRIBUTING.md."""
    parser = argparse.ArgumentParser(prog="python -m infra.floors", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write the drawing into CONTRIBUTING.md"
    )
    if parser.parse_args().write:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(drawing())
    return 0


if __name__ == "__main__":
    sys.exit(main())
