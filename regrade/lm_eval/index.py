"""Index of all tasks, groups and tags: built once from about 13,000 yaml files, then kept in the cache folder."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast

import orjson

from regrade.lm_eval.package import VERSION, quiet, tasks_folder
from regrade.lm_eval.python_files import runs_text, texts
from regrade.lm_eval.refusals import Refusal, refusal_of
from regrade.settings.errors import SettingsError, SourceError
from regrade.settings.files import atomic_write, cache_folder

Kind = Literal["task", "group", "tag"]
_FORMAT = 5
"""Version of the cached file; a file of another version is built again."""


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task, group or tag."""

    name: str
    kind: Kind
    path: str | None
    """Yaml file; None for a tag."""
    members: tuple[str, ...] = ()
    """Tasks and groups of a group or tag, by name, except those that a group defines itself."""
    output_type: str | None = None
    dataset: str | None = None
    refusal: Refusal | None = None


def task_index(include_path: str | None = None) -> Mapping[str, TaskEntry]:
    """Return all names of the installed lm_eval, and of a folder of the user.

    Args:
        include_path: Folder with yaml files, whose names take precedence. Read anew each time.

    Raises:
        NotInstalledError: If lm_eval is not installed.
        SettingsError: If another version of it is installed.
        SourceError: If the folder does not exist, or holds no task.
    """
    index = dict(_installed())
    if include_path is None:
        return index
    folder = Path(include_path).expanduser().absolute()
    if not folder.is_dir():
        raise SourceError("lm_eval", str(folder), "the folder of `--lm-eval-path` does not exist")
    own = entries_of(folder)
    if not own:
        raise SourceError(
            "lm_eval",
            str(folder),
            "no yaml file in the folder of `--lm-eval-path` describes a task",
        )
    return index | {entry.name: entry for entry in own}


def entry_of(name: str, index: Mapping[str, TaskEntry]) -> TaskEntry:
    """Return the entry of a name.

    Raises:
        SettingsError: If there is none; the message has the closest names.
    """
    if name in index:
        return index[name]
    close = get_close_matches(name, index, n=3, cutoff=0.7)
    hint = f" Did you mean {' or '.join(repr(other) for other in close)}?" if close else ""
    raise SettingsError(
        f"lm-evaluation-harness {VERSION} has no task '{name}'.{hint} `regrade benchmarks --lm-eval '*{name[:6]}*'` lists "
        "names; `--lm-eval-path` adds tasks of your own."
    )


def matching(pattern: str, index: Mapping[str, TaskEntry]) -> list[TaskEntry]:
    """Return the entries whose name matches a pattern, sorted; without `*` and `?`, those whose name contains it."""
    glob = pattern if set(pattern) & set("*?[") else f"*{pattern}*"
    return [index[name] for name in sorted(index) if fnmatchcase(name, glob)]


def leaves(name: str, index: Mapping[str, TaskEntry]) -> list[TaskEntry]:
    """Return the tasks of a name that have a yaml file, in order."""
    return [entry for entry in reached(name, index) if entry.kind == "task"]


def reached(name: str, index: Mapping[str, TaskEntry]) -> list[TaskEntry]:
    """Return the entry of a name and all entries of its members, in order."""
    found: dict[str, TaskEntry] = {}
    open_names = [name]
    while open_names:
        entry = index.get(open_names.pop(0))
        if entry is not None and entry.name not in found:
            found[entry.name] = entry
            open_names[:0] = entry.members
    return list(found.values())


@cache
def _installed() -> Mapping[str, TaskEntry]:
    folder = tasks_folder()
    kept = cache_folder() / "lm_eval" / f"{_identity(folder)}.json"
    entries = _read(kept)
    if entries is None:
        entries = entries_of(folder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(kept) as file:
            file.write(orjson.dumps([_FORMAT, [_row(entry) for entry in entries]]))
    return {entry.name: entry for entry in entries}


def _identity(folder: Path) -> str:
    """Return a name for the cached file, made of version and place of the installation."""
    changed = folder.stat().st_mtime_ns
    return sha256(f"{VERSION}\n{folder}\n{changed}".encode()).hexdigest()[:16]


def _row(entry: TaskEntry) -> Sequence[object]:
    return (
        entry.name,
        entry.kind,
        entry.path,
        entry.members,
        entry.output_type,
        entry.dataset,
        entry.refusal,
    )


def _read(kept: Path) -> list[TaskEntry] | None:
    """Return the entries of a cached file; None if it does not exist, or is of another version of regrade."""
    try:
        written, rows = orjson.loads(kept.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError, ValueError, TypeError):
        return None
    if written != _FORMAT:
        return None
    return [
        TaskEntry(name, kind, path, tuple(members), *more)
        for name, kind, path, members, *more in rows
    ]


def entries_of(folder: Path) -> list[TaskEntry]:
    """Read all yaml files of a folder, like `TaskIndex.build` of lm_eval."""
    from lm_eval.tasks._index import Kind as TheirKind
    from lm_eval.tasks._index import TaskIndex

    with quiet():
        theirs = TaskIndex.build([folder])
    entries = []
    for entry in theirs.values():
        config: Mapping[str, Any] = entry.cfg or {}
        path = None if entry.yaml_path is None else os.fspath(entry.yaml_path)
        if entry.kind is TheirKind.TAG:
            entries.append(TaskEntry(entry.name, "tag", None, tuple(sorted(entry.tags))))
        elif entry.kind is TheirKind.GROUP:
            entries.append(TaskEntry(entry.name, "group", path, tuple(_members(config))))
        else:
            entries.append(
                TaskEntry(
                    entry.name,
                    "task",
                    path,
                    output_type=None
                    if entry.kind is TheirKind.PY_TASK
                    else config.get("output_type", "generate_until"),
                    dataset=_text(config.get("dataset_path")),
                    refusal=refusal_of(config) or _refusal_of_code(config),
                )
            )
    return entries


def _refusal_of_code(config: Mapping[str, Any]) -> Refusal | None:
    """Return `unsafe_code` if a function of a task runs parts of an answer as code, although its yaml file does not say so."""
    # lm_eval's index gives functions as `/path/to/module.name`.
    modules = {text.rpartition(".")[0] for text in texts(config) if text.startswith(os.sep)}
    return "unsafe_code" if any(runs_text(Path(f"{name}.py")) for name in modules) else None


def _members(config: Mapping[str, Any]) -> Iterable[str]:
    members = config.get("task")
    for member in members if isinstance(members, list) else []:
        if isinstance(member, str):
            yield member
        elif isinstance(member, dict):
            if isinstance(member.get("task"), list):
                yield from _members(member)
            elif name := member.get("task") or member.get("group"):
                yield cast("str", name)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
