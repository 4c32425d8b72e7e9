"""Python files of tasks: what they import, and which of them run text as code."""

import ast
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from regrade.lm_eval.package import tasks_folder
from regrade.settings.errors import SettingsError

_RUNNING = frozenset({"eval", "exec", "parse_expr", "sympify"})
"""Functions that run a text as Python: two of Python's, and two of sympy's, which use them."""
_INTERPRETERS = frozenset({"swipl"})
"""Programs that run a text: that of Prolog."""


def texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - what a yaml file holds
    """Yield all texts in the configuration of a task, such as the names of its functions."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from texts(member)


def imported(path: Path) -> tuple[Path, ...]:
    """Return the Python files of tasks that a Python file imports."""
    return tuple(dict.fromkeys(_files_of(_parsed(path), path)))


@cache
def runs_text(path: Path) -> bool:
    """Return True if a Python file of the installed lm_eval, or one that it imports, may run a part of an answer as code."""
    waiting, seen = [path.resolve()], set[Path]()
    while waiting:
        file = waiting.pop()
        if file not in seen and file.is_file() and file.is_relative_to(tasks_folder().resolve()):
            seen.add(file)
            tree = _parsed(file)
            if any(_runs_text(node) for node in ast.walk(tree)):
                return True
            waiting += _files_of(tree, file)
    return False


def _runs_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return name in _RUNNING and not (name == "eval" and isinstance(node, ast.Attribute))
    return isinstance(node, ast.Constant) and node.value in _INTERPRETERS


def _parsed(path: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for invalid escapes in texts
            return ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise SettingsError(f"'{path}', line {error.lineno}: {error.msg}.") from error


def _files_of(tree: ast.Module, path: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            names += [f"{node.module or ''}.{alias.name}" for alias in node.names]
            for name in names:
                yield from _files(name.strip("."), node.level, path)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name, 0, path)


def _files(name: str, level: int, path: Path) -> Iterable[Path]:
    """Return the files of a module: relative to a file, of lm_eval's tasks, or next to the file."""
    parts = [part for part in name.split(".") if part]
    if level:
        folder = path.parents[level - 1]
    elif parts[:2] == ["lm_eval", "tasks"]:
        folder, parts = tasks_folder(), parts[2:]
    else:
        folder = path.parent
    if not parts:
        return ()
    base = folder.joinpath(*parts)
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return [file.resolve() for file in candidates if file.is_file()]
