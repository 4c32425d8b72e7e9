"""Programs of perf/ and infra/ import names that exist; mypy does not read them, and most of them run by hand only."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("regrade", "flows", "tasks", "perf", "infra", "tests")
PROGRAMS = sorted(path for folder in ("perf", "infra") for path in (ROOT / folder).rglob("*.py"))


def file_of(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    found = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in found if file.is_file()), None)


@cache
def names_in(file: Path) -> frozenset[str]:
    """Every name that a file binds, also inside of functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.ImportFrom(module=str(module), names=[ast.alias(name="*")]):
                found.update(names_in(file_of(module) or file))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found.update(alias.asname or alias.name for alias in names)
    return frozenset(found)


def imported(program: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
            yield from ((str(node.module), alias.name) for alias in node.names)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_program_imports_exists(program: Path) -> None:
    missing = []
    for module, name in imported(program):
        file = file_of(module)
        if file_of(f"{module}.{name}") is None and (file is None or name not in names_in(file)):
            missing.append(f"{module}: {name}")
    assert missing == []
