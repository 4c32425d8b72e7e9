"""Checkpoints in folders: those that are complete, and those that are still being written."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from regrade.checkpoints import KEPT
from regrade.checkpoints.watching.found import Found
from regrade.models.local import file_states, find_missing, model_files
from regrade.models.local import folder_name as name_of
from regrade.records.specification import CHECKPOINT
from regrade.settings.errors import SettingsError

_TEMPORARY = (".", "tmp", KEPT)
"""Beginnings of the names of folders that are renamed or deleted soon."""


def checkpoints(folder: Path, *, settle: float) -> Iterator[Found]:
    """Yield the checkpoints in a training's folder, in the order of their steps or names.

    A folder is a checkpoint if it has a `config.json`, or is named `checkpoint-<step>`.

    Args:
        folder: Folder whose folders are checkpoints.
        settle: Seconds without a change after which a complete checkpoint counts as written.

    Raises:
        SettingsError: If the folder does not exist.
    """
    if not folder.is_dir():
        raise SettingsError(f"There is no folder '{folder}' to watch on this machine.")
    for path in sorted(folder.iterdir(), key=_order):
        is_model = CHECKPOINT.fullmatch(path.name) or (path / "config.json").is_file()
        if is_model and path.is_dir() and not path.name.startswith(_TEMPORARY):
            yield in_folder(path, name=folder.resolve().name, settle=settle)


def in_folder(folder: Path, *, settle: float, name: str | None = None) -> Found:
    """Return the revision of a model in a folder.

    Args:
        folder: The model.
        settle: Seconds without a change after which a complete model counts as written.
        name: Name of its training; that of the folder if not given.
    """
    path = folder.resolve()
    waits_for = find_missing(path) if path.is_dir() else "the folder does not exist (any more)"
    states = file_states(path)
    age = time.time() - max((time_ns for _, time_ns in states.values()), default=0) / 1e9
    if waits_for is None and age < settle:
        waits_for = (
            f"it changed {max(age, 0):.0f} s ago; it is left for {settle:g} s without a change"
        )
    name = name or name_of(path)
    if waits_for is not None:
        return Found(name, str(path), "", waits_for, age)
    try:
        return Found(name, str(path), _fingerprint(path))
    except FileNotFoundError as error:  # deleted meanwhile
        return Found(name, str(path), "", f"a file cannot be read ({error})")


def _fingerprint(path: Path) -> str:
    """Return a hash of the names, sizes and times of the files that decide the answers; their content is not read."""
    digest = hashlib.sha256()
    for file in sorted(model_files(path)):
        stat = file.stat()
        digest.update(f"{file.relative_to(path)}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _order(path: Path) -> tuple[int, str]:
    match = CHECKPOINT.fullmatch(path.name)
    return (int(match[1]) if match else -1, path.name)
