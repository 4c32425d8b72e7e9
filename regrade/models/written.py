"""Find out whether a model in a folder is completely written, without loading it."""

import os
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from regrade.errors import ModelError
from regrade.models.local import check_folder

_LONGEST_HEADER = 100_000_000
"""Longest header of a safetensors file, in bytes; the safetensors library refuses longer ones."""


class _Tensor(BaseModel):
    """A tensor in a safetensors header (https://huggingface.co/docs/safetensors)."""

    data_offsets: tuple[int, int]


class _Header(BaseModel, extra="allow"):
    """A safetensors header: tensors by name, and texts."""

    __pydantic_extra__: dict[str, _Tensor]
    metadata: dict[str, str] = Field({}, alias="__metadata__")


def find_missing(folder: Path) -> str | None:
    """Name the part that a model in a folder lacks (yet); None if it is complete."""
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


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and modification time (ns) of each file in a folder and the folders below it."""
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
    """Name the problem of the length or the header of a safetensors file; None if it has none.

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
