"""Files: sha256, durable atomic writes, and the cache folder."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

CACHE_VARIABLE = "REGRADE_CACHE"
"""Environment variable naming the cache folder."""


def cache_folder() -> Path:
    """Return the cache folder: `REGRADE_CACHE`, or a folder in the user's cache."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regrade"


def file_sha256(path: Path, on_read: Callable[[int], None] = lambda _: None) -> str:
    """Return the sha256 of a file; `on_read` is called with the number of bytes of each part that was read."""
    with _Read(path, on_read) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Read(FileIO):
    """A file that reports the number of bytes read."""

    def __init__(self, path: Path, on_read: Callable[[int], None]) -> None:
        super().__init__(path)
        self._on_read = on_read

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        n = super().readinto(buffer)
        self._on_read(n)
        return n


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that durably replaces `path` when the block ends, and is deleted after an error.

    Until then it is a file `<name>.<random>.tmp` in the same folder.
    """
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
