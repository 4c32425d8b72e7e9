"""Files of a commit: checked paths, and the hashes by which stores identify content."""

import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from regrade.answers.base import StoredFile
from regrade.records.specification import LONGEST_NAME
from regrade.settings.errors import RepositoryError

CHUNK_BYTES = 1 << 20
REVISION = re.compile(r"[0-9a-f]{40}")
_COMPONENT = re.compile(r"[^\x00-\x1f\x7f/\\.][^\x00-\x1f\x7f/\\]*")


@dataclass(frozen=True)
class Content(StoredFile):
    """A file to write; both hashes of it are known."""

    source: Path | bytes = field(kw_only=True)
    sha256: str
    git_oid: str


def describe(uri: str, additions: Mapping[str, Path | bytes]) -> list[Content]:
    """Return the additions of a commit with their hashes, sorted by path.

    Raises:
        RepositoryError: If there are no additions, or a path is not allowed.
    """
    if not additions:
        raise RepositoryError(uri, "a commit needs at least one file.")
    for path in additions:
        check_path(uri, path)
    return [
        Content(path, *content_hashes(source), source=source)
        for path, source in sorted(additions.items())
    ]


def check_path(uri: str, path: str) -> None:
    """Refuse paths outside the repository, hidden files, and names that no file system takes.

    Raises:
        RepositoryError: If `path` is not relative with `/` between names that do not start with a dot, of 255 bytes at most.
    """
    parts = path.split("/")
    fits = all(len(part.encode()) <= LONGEST_NAME for part in parts)
    if not fits or not all(_COMPONENT.fullmatch(part) for part in parts):
        raise RepositoryError(
            uri,
            f"'{path}' is not a valid path: expected a relative path with '/' between names "
            f"that do not start with a dot, of {LONGEST_NAME} bytes at most.",
        )


def content_hashes(source: Path | bytes) -> tuple[int, str, str]:
    """Return size in bytes, sha256 and git sha1 of a content."""
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    sha256 = hashlib.sha256()
    git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    read = 0
    with opened(source) as file:
        while chunk := file.read(CHUNK_BYTES):
            read += len(chunk)
            sha256.update(chunk)
            git.update(chunk)
    return read, sha256.hexdigest(), git.hexdigest()


def opened(source: Path | bytes) -> BinaryIO:
    """Open a content for reading."""
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
