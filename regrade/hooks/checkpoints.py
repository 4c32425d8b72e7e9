"""Wait until checkpoints of `transformers.Trainer` are complete, and keep them until they are evaluated."""

import os
import shutil
import time
from fnmatch import fnmatch
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from regrade.errors import ModelError
from regrade.models.local import check_folder

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
_LONGEST_HEADER = 100_000_000
"""Longest header of a safetensors file, in bytes; the safetensors library refuses longer ones."""


class NotWrittenError(ModelError):
    """A checkpoint is still being written, or is not a complete model."""


class _Tensor(BaseModel):
    """A tensor in a safetensors header (https://huggingface.co/docs/safetensors)."""

    data_offsets: tuple[int, int]


class _Header(BaseModel, extra="allow"):
    """A safetensors header: tensors by name, and texts."""

    __pydantic_extra__: dict[str, _Tensor]
    metadata: dict[str, str] = Field({}, alias="__metadata__")


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
    """Return the reason why a checkpoint cannot be evaluated (yet); None if it can."""
    if not folder.is_dir():
        return "the folder does not exist (any more)"
    if not (folder / LAST).is_file():
        return f"it has no '{LAST}', which is written last"
    try:
        for path in sorted(folder.glob("*.safetensors")):
            if problem := _problem_of_weights(path):
                return f"'{path.name}' {problem}"
        check_folder(folder, needs_weights=True)
    except ModelError as error:
        return error.problem.rstrip(".")
    except OSError as error:  # such as a file that was renamed after it was listed
        return f"a file cannot be read ({error})"
    return None


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


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and modification time of each file."""
    files: dict[str, tuple[int, int]] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # a temporary file that was renamed or deleted
            files[str(path)] = (status.st_size, status.st_mtime_ns)
    return files


def _problem_of_weights(path: Path) -> str | None:
    """Return what is wrong with the length or the header of a safetensors file; None if nothing is.

    The safetensors library would map the file into memory: the training would end by SIGBUS if a writer truncated the
    file meanwhile.
    """
    with path.open("rb") as file:
        start = file.read(8)
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(start, "little")
        if len(start) < 8 or 8 + length > size:
            return "is shorter than its header says"
        if length > _LONGEST_HEADER:
            return f"has a header of {length} bytes; at most {_LONGEST_HEADER} are possible"
        try:
            header = _Header.model_validate_json(file.read(length))
        except ValidationError:
            return "has no safetensors header"
    ends = [tensor.data_offsets[1] for tensor in header.__pydantic_extra__.values()]
    return "is shorter than its header says" if size < 8 + length + max(ends, default=0) else None
