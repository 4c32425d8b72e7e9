"""The queue of a training's checkpoints: a folder of hard links, from which each is removed once it is evaluated."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from regrade.checkpoints import ENDED
from regrade.models.local import find_missing
from regrade.records.specification import CHECKPOINT

_KEPT = "regrade-kept"
"""Name of the folder in a training's folder for hard links to checkpoints."""
_TRAINING_ONLY = shutil.ignore_patterns(
    *("optimizer*", "scheduler*", "scaler*", "rng_state*", "training_args.bin", "global_step*")
)
"""Leaves out the files that are needed only to continue training."""


class Queue:
    """The checkpoints of a training that wait for their evaluation, in its output folder."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output / _KEPT / output.resolve().name
        """Its path ends in the name of the training, as that of a checkpoint should."""

    def put(self, checkpoint: Path) -> str | None:
        """Add a checkpoint; return the reason if it has no hard links and should have some.

        Hard links to its model stay when the Trainer deletes it, and take no extra space until then. They appear together, so
        that nobody finds a part of them. A checkpoint that is not complete yet, or has no hard links, is put there by a symbolic
        link.

        Raises:
            OSError: If the queue cannot be written.
        """
        place, written = self.folder / checkpoint.name, self.folder / f".{checkpoint.name}"
        self.drop(checkpoint.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        problem = None
        if find_missing(checkpoint) is None:
            shutil.rmtree(written, ignore_errors=True)
            try:
                shutil.copytree(
                    checkpoint,
                    written,
                    ignore=_TRAINING_ONLY,
                    copy_function=os.link,
                    ignore_dangling_symlinks=True,
                )
                written.rename(place)
            except OSError as error:
                shutil.rmtree(written, ignore_errors=True)
                # That of a tree lists every file.
                problem = error.args[0][0][2] if isinstance(error, shutil.Error) else str(error)
            else:
                return None
        place.symlink_to(checkpoint.resolve())
        return problem

    def places(self) -> list[Path]:
        """Return the checkpoints in it, in the order of their steps."""
        return sorted(
            (path for path in self.folder.glob("checkpoint-*") if CHECKPOINT.fullmatch(path.name)),
            key=lambda path: int(path.name.rpartition("-")[2]),
        )

    def drop(self, name: str) -> None:
        """Remove a checkpoint, and the folders unless they hold something."""
        place = self.folder / name
        if place.is_symlink():
            place.unlink(missing_ok=True)
        else:
            shutil.rmtree(place, ignore_errors=True)
        self._remove_if_empty()

    def end(self) -> None:
        """Tell the evaluating process that no further checkpoints come."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ENDED).touch()

    def begin(self) -> None:
        """Take that back."""
        if self.folder.is_dir():
            (self.folder / ENDED).unlink(missing_ok=True)
            self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()
            self.folder.parent.rmdir()
