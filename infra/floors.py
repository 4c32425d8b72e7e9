"""The floors of the house, drawn from its imports: `python -m infra.floors [--write]`.

A room is a folder of `regrade`, a module beside these folders, `flows` or `tasks`. A room stands one floor above the
highest room that it imports. CONTRIBUTING.md holds the drawing; a test says when it is out of date.
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
    """Rooms import each other, so that none of them stands above the other."""


def rooms() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        room = _room(module)
        below = found.setdefault(room, set())
        below |= {_room(one) for one in graph.find_modules_directly_imported_by(module)} - {room}
    found.pop("regrade")
    return {room: below - {"regrade"} for room, below in found.items()}


def _room(module: str) -> str:
    first, *more = module.split(".")
    return more[0] if first == "regrade" and more else first


def floors(imported: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the rooms of each floor, the ground floor first.

    Raises:
        CircleError: If rooms import each other.
    """
    height: dict[str, int] = {}
    left = dict(imported)
    while left:
        ready = [room for room, below in left.items() if below <= height.keys()]
        if not ready:
            raise CircleError(f"rooms that import each other: {', '.join(sorted(left))}")
        for room in ready:
            height[room] = 1 + max((height[one] for one in left.pop(room)), default=-1)
    return [
        sorted(room for room in height if height[room] == floor)
        for floor in range(max(height.values()) + 1)
    ]


def drawing() -> str:
    """Return the floors as a block of text, the highest first."""
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
    """Return CONTRIBUTING.md with the drawing as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawing()}\n{END}{after}"


def main() -> int:
    """Print the drawing, or put it into CONTRIBUTING.md."""
    parser = argparse.ArgumentParser(prog="python -m infra.floors", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put it into CONTRIBUTING.md")
    if parser.parse_args().write:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(drawing())
    return 0


if __name__ == "__main__":
    sys.exit(main())
