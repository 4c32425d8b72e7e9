"""Scorers in a file, named as `path/to/file.py:name`.

A file's scorer is loaded once and then known in this process by its plain name, which is also the name in stored scores:
a path of this machine is never stored.
"""

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from regrade.settings import registry
from regrade.settings.errors import PluginError, SettingsError

RESERVED = ("original",)
"""Names of scores of imported answers, which no installed scorer computes."""


@dataclass(frozen=True, slots=True)
class FileScorer:
    """A function or class of a file."""

    name: str
    path: Path
    definition: Any
    source: str
    """Text of the file as it was loaded."""


_loaded: dict[str, FileScorer] = {}
"""Scorers of files that this process uses, by name."""


def is_specification(name: str) -> bool:
    """Return True for a name such as `path/to/file.py:name`."""
    return re.fullmatch(registry.IN_FILE, name) is not None


def loaded(name: str) -> FileScorer | None:
    """Return the scorer of a file that was loaded under a name, or None."""
    return _loaded.get(name)


def load_file(specification: str) -> FileScorer:
    """Load a scorer of a file, and make it known by its name.

    Args:
        specification: `path/to/file.py:name`. The path is relative to the working directory.

    Raises:
        SettingsError: If the file or the name does not exist, or the name belongs to another scorer.
        PluginError: If the file cannot be run.
    """
    path_text, _, name = specification.rpartition(":")
    path = Path(path_text).expanduser()
    if not path.is_file():
        raise SettingsError(
            f"Scorer '{specification}': there is no file '{path_text}'. Expected `path/to/file.py:name`."
        )
    path = path.resolve()
    if not re.fullmatch(registry.NAME, name):
        raise SettingsError(
            f"Scorer '{specification}': scores are stored under the name '{name}', which should consist of a to z, 0 to 9 "
            "and '_'. Rename the function."
        )
    if name in (*registry.names("scorer"), *RESERVED):
        raise SettingsError(
            f"Scorer '{specification}': the name '{name}' belongs to another scorer. Rename the function, because "
            "scores are stored under its name."
        )
    known = _loaded.get(name)
    if known is not None:
        if known.path == path:
            return known
        raise SettingsError(
            f"Scorer '{specification}': the name '{name}' is already used for the scorer in '{known.path}'. Rename one."
        )
    source = _read(path, specification)
    module = _run(path, source, name)
    if not hasattr(module, name):
        public = [key for key, value in vars(module).items() if _is_defined_in(module, key, value)]
        found = ", ".join(f"'{key}'" for key in public) or "no function"
        raise SettingsError(
            f"Scorer '{specification}': '{path.name}' has no '{name}'; found {found}."
        )
    scorer = FileScorer(name, path, getattr(module, name), source)
    _loaded[name] = scorer
    return scorer


def forget_files() -> None:
    """Forget all scorers of files, as in a new process."""
    _loaded.clear()


def _read(path: Path, specification: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"Scorer '{specification}': the file cannot be read: {error}."
        ) from error


def _run(path: Path, source: str, name: str) -> ModuleType:
    """Run a file as a module that no import can find by accident."""
    module_name = f"regrade_scorer_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None:
        raise PluginError("scorer", name, f"'{path.name}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look up their module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[module_name]
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise PluginError(
            "scorer",
            name,
            f"'{path.name}'{line} cannot be run: {type(error).__name__}: {error}. Shared code has to be in the same file, "
            "or in an installed package"
            if isinstance(error, ImportError)
            else f"'{path.name}'{line} cannot be run: {type(error).__name__}: {error}",
        ) from error
    return module


def _is_defined_in(module: ModuleType, key: str, value: object) -> bool:
    return (
        callable(value)
        and not key.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    )
