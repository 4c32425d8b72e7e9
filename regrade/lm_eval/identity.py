"""Files that decide a task: its yaml files, and the Python files that they import, also indirectly."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from regrade.lm_eval.index import TaskEntry, leaves
from regrade.lm_eval.package import tasks_folder
from regrade.lm_eval.python_files import imported, texts
from regrade.settings.errors import SettingsError
from regrade.settings.files import file_sha256


def content_hash(name: str, index: Mapping[str, TaskEntry], include_path: str | None) -> str:
    """Return the sha256 over the content of all files that decide a task, group or tag.

    The hash has paths relative to lm_eval's tasks or to the user's folder, so that it is equal on all machines.

    Args:
        name: Task, group or tag.
        index: Result of `task_index`.
        include_path: The user's folder, if there is one.

    Raises:
        SettingsError: If a file is in neither folder.
    """
    roots = [tasks_folder().resolve()]
    if include_path is not None:
        roots.insert(0, Path(include_path).expanduser().resolve())
    digest = hashlib.sha256()
    for path in sorted(task_files(name, index)):
        digest.update(f"{_relative(path, roots)}\t{file_sha256(path)}\n".encode())
    return digest.hexdigest()


def task_files(name: str, index: Mapping[str, TaskEntry]) -> set[Path]:
    """Return the yaml and Python files that decide a task, group or tag."""
    found: set[Path] = set()
    for path in _yaml_files(name, index):
        _collect(path, found)
    return found


def _yaml_files(name: str, index: Mapping[str, TaskEntry]) -> Iterator[Path]:
    open_names, seen = [name], set()
    while open_names:
        entry = index.get(open_names.pop())
        if entry is None or entry.name in seen:
            continue
        seen.add(entry.name)
        open_names += entry.members
        if entry.path is not None:
            yield Path(entry.path).resolve()
    yield from (Path(leaf.path).resolve() for leaf in leaves(name, index) if leaf.path is not None)


def _collect(path: Path, found: set[Path]) -> None:
    """Add a file and all files that it needs."""
    if path in found:
        return
    found.add(path)
    needed = imported(path) if path.suffix == ".py" else _included(path)
    for other in needed:
        _collect(other, found)


class _Reader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
    """Reads yaml and keeps the names of functions as text."""


class _Function(str):
    """Name of a function in a yaml file: `module.function`."""

    __slots__ = ()


_Reader.add_constructor("!function", lambda loader, node: _Function(loader.construct_scalar(node)))


def _included(path: Path) -> tuple[Path, ...]:
    """Return the files that a yaml file includes, and the Python files next to it that its functions are in."""
    content = yaml.load(path.read_bytes(), Loader=_Reader)
    if not isinstance(content, dict):
        return ()
    includes = content.get("include") or []
    files = [
        path.parent / include
        for include in (includes if isinstance(includes, list) else [includes])
    ]
    for function in (text for text in texts(content) if isinstance(text, _Function)):
        module = function.rpartition(".")[0].replace(".", "/")
        files.append(path.parent / f"{module}.py")
    return tuple(file.resolve() for file in files if file.is_file())


def _relative(path: Path, roots: Iterable[Path]) -> str:
    for root in roots:
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    raise SettingsError(
        f"'{path}' decides a task, but is neither in lm_eval nor in the folder of `--lm-eval-path`. Put it there."
    )
