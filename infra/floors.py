"""Write the tree and the floors of the code into CONTRIBUTING.md: `python -m infra.floors [--write]`.

A room is a folder of `regrade`, or the package `flows` or `tasks`. A room is one floor above the highest room that it
imports. A test fails if CONTRIBUTING.md is out of date.
"""

import argparse
import ast
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import grimp

PACKAGES = ("flows", "tasks", "regrade")
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
COLUMN = 20
"""Column of the tree at which the descriptions begin."""


class CircleError(Exception):
    """Rooms or files import each other, so that they have no order."""


@cache
def files() -> dict[str, set[str]]:
    """Return the modules that each module imports, also inside its functions, but not for types alone."""
    return _imports(for_types=False)


@cache
def rooms() -> dict[str, set[str]]:
    """Return the rooms that each room imports, also for types."""
    imported: dict[str, set[str]] = {}
    for module, below in _imports(for_types=True).items():
        imported.setdefault(_room(module), set()).update(map(_room, below))
    imported.pop("regrade")
    return {room: below - {room, "regrade"} for room, below in imported.items()}


def _imports(*, for_types: bool) -> dict[str, set[str]]:
    graph = grimp.build_graph(
        *PACKAGES, cache_dir=None, exclude_type_checking_imports=not for_types
    )
    return {
        module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }


def _room(module: str) -> str:
    first, *more = module.split(".")
    return more[0] if first == "regrade" and more else first


def source(module: str) -> Path:
    """Return the file of a module or package."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def floors(imported: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the rooms (or files) of each floor, the ground floor first.

    Raises:
        CircleError: If some import each other.
    """
    heights: dict[str, int] = {}
    left = dict(imported)
    while left:
        ready = [room for room, below in left.items() if heights.keys() >= set(below)]
        if not ready:
            raise CircleError(f"import each other: {', '.join(sorted(_circles(left)))}")
        for room in ready:
            heights[room] = 1 + max((heights[below] for below in left.pop(room)), default=-1)
    return [
        sorted(room for room in heights if heights[room] == floor)
        for floor in range(max(heights.values()) + 1)
    ]


def _circles(imported: Mapping[str, Collection[str]]) -> set[str]:
    """Return the rooms without those that only import rooms of a circle."""
    left = set(imported)
    while unused := left.difference(*(imported[room] for room in left)):
        left -= unused
    return left


def lonely(below: int) -> dict[str, str]:
    """Return the modules of fewer lines than `below` that one file imports, of their own folder; with that file."""
    importers: dict[str, list[str]] = {module: [] for module in files()}
    for importer, imported in files().items():
        for module in imported:
            importers[module].append(importer)
    return {
        module: by[0]
        for module, by in sorted(importers.items())
        if len(by) == 1
        and source(module).parent == source(by[0]).parent
        and len(source(module).read_text(encoding="utf-8").splitlines()) < below
    }


def tree() -> str:
    """Return the packages, each with the first sentence of its docstring."""
    packages = sorted(module for module in files() if source(module).name == "__init__.py")
    lines = []
    for package in (name for first in PACKAGES for name in packages if _is_in(name, first)):
        text = ast.get_docstring(ast.parse(source(package).read_text(encoding="utf-8"))) or ""
        sentence = " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".")
        name = "  " * package.count(".") + package.rpartition(".")[2] + "/"
        lines.append(f"{name:<{COLUMN}} {sentence}")
    return "\n".join(lines)


def _is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def drawing() -> str:
    """Return the floors, the highest first."""
    imported = rooms()
    levels = floors(imported)
    rule = "-" * (max(len("   ".join(level)) for level in levels) + 4)
    lines = [
        f"{len(imported)} rooms on {len(levels)} floors, {sum(map(len, imported.values()))} arrows, all of them down"
    ]
    for number, level in reversed(list(enumerate(levels))):
        lines += [rule, f"{number:>2}  {'   '.join(level)}"]
    return "\n".join([*lines, rule])


def page(text: str) -> str:
    """Return the text of CONTRIBUTING.md with the tree and the floors of today."""
    for name, block in (("tree", tree()), ("floors", drawing())):
        begin, end = f"<!-- {name}: python -m infra.floors --write -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n```\n{block}\n```\n{end}{after}"
    return text


def main() -> int:
    """Print the tree and the floors, or write them into CONTRIBUTING.md."""
    parser = argparse.ArgumentParser(prog="python -m infra.floors", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write tree and floors into CONTRIBUTING.md"
    )
    if parser.parse_args().write:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(f"{tree()}\n\n{drawing()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
