"""Wait until checkpoints of `transformers.Trainer` are complete, and keep their files until they are evaluated."""

import os
import shutil
import time
from fnmatch import fnmatch
from pathlib import Path

from regrade.checkpoints import KEPT
from regrade.models.local import file_states, find_missing
from regrade.settings.errors import ModelError

LAST = "trainer_state.json"
"""Name of the file that the Trainer writes last."""
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
        stable: Seconds without a change after which a complete checkpoint is accepted. An incomplete checkpoint is
            given up after 30 times as long.

    Raises:
        NotWrittenError: If it is incomplete; the message names the missing part.
    """
    deadline = time.monotonic() + timeout
    before: dict[str, tuple[int, int]] = {}
    unchanged_since = time.monotonic()
    while True:
        problem = find_problem(folder)
        now = file_states(folder)
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
    """Return the reason for which a checkpoint cannot be evaluated (yet), or None."""
    if not folder.is_dir():
        return "the folder does not exist (any more)"
    if not (folder / LAST).is_file():
        return f"it has no '{LAST}', which is written last"
    return find_missing(folder)


def keep(folder: Path) -> Path:
    """Hard-link a checkpoint's model into a folder that stays when the Trainer deletes the checkpoint; return it.

    Its path also ends in the name of the training and `checkpoint-<step>`. The links take no extra space while the
    checkpoint exists.

    Raises:
        OSError: If the file system has no hard links, or a file is deleted meanwhile.
    """
    kept = kept_folder(folder.parent) / folder.name
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
        drop(kept)
        raise
    return kept


def kept_folder(output: Path) -> Path:
    """Folder of a training's kept checkpoints, in its output folder."""
    return output / KEPT / output.resolve().name


def drop(kept: Path) -> None:
    """Remove the folder that `keep` returned."""
    shutil.rmtree(kept, ignore_errors=True)
    for parent in kept.parents[:2]:
        try:
            parent.rmdir()
        except OSError:
            return  # it still contains another checkpoint
