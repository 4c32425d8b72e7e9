"""Wait until checkpoints of `transformers.Trainer` are complete, and keep them until they are evaluated."""

import json
import os
import shutil
import struct
import time
from fnmatch import fnmatch
from pathlib import Path

from regrade.errors import ModelError
from regrade.models.local import resolve_folder

LAST = "trainer_state.json"
"""Name of the file that the Trainer writes last."""
KEPT = "regrade-kept"
"""Name of the folder for hard links to checkpoints."""
_TRAINING_ONLY = (
    "optimizer*",
    "scheduler*",
    "scaler*",
    "rng_state*",
    "training_args.bin",
    "global_step*",
)
"""Patterns of files that are needed only to continue training."""


class NotWrittenError(ModelError):
    """A checkpoint is still being written, or is not a complete model."""


def wait_until_written(folder: Path, *, timeout: float, stable: float = 1.0) -> None:
    """Wait until a checkpoint is a complete model and its files no longer change.

    Other ranks or background threads may still write after the Trainer has called `on_save`.

    Args:
        folder: The checkpoint.
        timeout: Longest wait in seconds.
        stable: Seconds without a change after which a complete checkpoint is accepted. An incomplete one is given up
            after 30 times as long.

    Raises:
        NotWrittenError: If it is incomplete; the message names the missing part.
    """
    deadline = time.monotonic() + timeout
    before: dict[str, tuple[int, int]] = {}
    unchanged_since = time.monotonic()
    while True:
        problem = find_problem(folder)
        now = _files(folder)
        if now != before:
            before, unchanged_since = now, time.monotonic()
            problem = problem or "its files still change"
        elif time.monotonic() - unchanged_since < stable:
            problem = problem or "its files still change"
        if problem is None:
            return
        now_at = time.monotonic()
        if now_at > deadline or now_at - unchanged_since > 30 * stable or not folder.is_dir():
            raise NotWrittenError(str(folder), f"{problem}.")
        time.sleep(stable / 4)


def find_problem(folder: Path) -> str | None:
    """Return the reason why a checkpoint cannot be evaluated; None if it can."""
    if not folder.is_dir():
        return "the folder does not exist (any more)"
    if not (folder / LAST).is_file():
        return f"it has no '{LAST}', which is written last"
    for path in sorted(folder.glob("*.safetensors")):
        if not _is_whole(path):
            return f"'{path.name}' is shorter than its header says"
    try:
        resolve_folder(folder, None, needs_weights=True)
    except ModelError as error:
        return error.problem.rstrip(".")
    return None


def keep(folder: Path) -> Path:
    """Hard-link a checkpoint's model into a folder that stays when the Trainer deletes the checkpoint; return it.

    Its path also ends in the name of the training and `checkpoint-<step>`. The links take no extra space while the
    checkpoint exists.

    Raises:
        OSError: If the file system has no hard links.
    """
    kept = folder.parent / KEPT / folder.parent.name / folder.name
    shutil.rmtree(kept, ignore_errors=True)
    try:
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if path.is_file() and not any(
                fnmatch(relative.parts[0], pattern) for pattern in _TRAINING_ONLY
            ):
                target = kept / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, target)
    except OSError:
        shutil.rmtree(kept, ignore_errors=True)
        raise
    return kept


def drop(kept: Path) -> None:
    """Remove the folder that `keep` returned."""
    shutil.rmtree(kept, ignore_errors=True)
    for parent in kept.parents[:2]:
        try:
            parent.rmdir()
        except OSError:
            return  # it still contains another checkpoint


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and modification time of each file."""
    files: dict[str, tuple[int, int]] = {}
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # a temporary file that was renamed or deleted
        files[str(path)] = (status.st_size, status.st_mtime_ns)
    return files


def _is_whole(path: Path) -> bool:
    """Return True if a safetensors file has the length that its header states."""
    with path.open("rb") as file:
        start = file.read(8)
        if len(start) < 8:
            return False
        (length,) = struct.unpack("<Q", start)
        size = path.stat().st_size
        if 8 + length > size:
            return False
        try:
            header = json.loads(file.read(length))
        except ValueError:
            return False
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    return bool(size >= 8 + length + max(ends, default=0))
