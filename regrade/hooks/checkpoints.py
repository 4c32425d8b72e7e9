"""Checkpoints of `transformers.Trainer`: written to their end, and kept until they are evaluated."""

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
"""What the Trainer writes last."""
KEPT = "regrade-kept"
_TRAINING_ONLY = (
    "optimizer*",
    "scheduler*",
    "scaler*",
    "rng_state*",
    "training_args.bin",
    "global_step*",
)


class NotWrittenError(ModelError):
    """A checkpoint was still being written, or is not a whole model."""


def wait_until_written(folder: Path, *, timeout: float, stable: float = 1.0) -> None:
    """Wait until a checkpoint is a whole model and nothing writes to it any more.

    Saving can go on after the Trainer said it was done: in other ranks, or in the background.

    Args:
        folder: The checkpoint.
        timeout: Seconds to wait.
        stable: Seconds for which no file may change. Where something is missing and nothing changes for 30 times
            as long, nobody is writing.

    Raises:
        NotWrittenError: If it is not, with what is missing.
    """
    deadline = time.monotonic() + timeout
    before: dict[str, tuple[int, int]] = {}
    unchanged_since = time.monotonic()
    while True:
        problem = what_is_missing(folder)
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


def what_is_missing(folder: Path) -> str | None:
    """Return what a checkpoint lacks to be evaluated; None if nothing."""
    if not folder.is_dir():
        return "the folder is not there (any more)"
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
    """Return a folder of hard links to a checkpoint's model, which stays when the Trainer deletes the checkpoint.

    Its name still ends in the name of the training and `checkpoint-<step>`. It takes no space of its own while the
    checkpoint is there.

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
    """Remove what `keep` made."""
    shutil.rmtree(kept, ignore_errors=True)
    for parent in kept.parents[:2]:
        try:
            parent.rmdir()
        except OSError:
            return  # another checkpoint is still in there


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # a temporary file that was renamed meanwhile
        found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found


def _is_whole(path: Path) -> bool:
    """Return whether a safetensors file is as long as its header says."""
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
    ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
    return bool(size >= 8 + length + max(ends, default=0))
