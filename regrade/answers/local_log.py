"""The log of a versioned folder: one line per commit, and a complete line is what commits.

The log of a downloaded folder is untrusted input: it is validated on reading.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
from pydantic import Field, ValidationError

from regrade.answers.base import StoredFile
from regrade.answers.content import check_path
from regrade.errors import DamagedAnswersError, RepositoryError
from regrade.settings import StrictModel


class Change(StrictModel):
    """The file that a commit wrote at a path."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class LogLine(StrictModel):
    """A commit."""

    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    """sha1 of the other fields, as JSON with sorted keys."""
    parent: str | None
    date: str | None
    """ISO 8601 in UTC; None for files older than the log."""
    message: str
    changes: dict[str, Change]
    removed: tuple[str, ...] = ()
    """Paths that the commit removed."""


def new_line(
    parent: str | None,
    date: str | None,
    message: str,
    changes: Mapping[str, Change],
    removed: Sequence[str] = (),
) -> LogLine:
    """Return the line of a commit."""
    line = LogLine(
        revision="0" * 40,
        parent=parent,
        date=date,
        message=message,
        changes=dict(changes),
        removed=tuple(removed),
    )
    return line.model_copy(update={"revision": _revision(line)})


def read_log(path: Path) -> tuple[list[LogLine], int]:
    """Return the commits, oldest first, and the length in bytes up to the end of the last complete line.

    Raises:
        DamagedAnswersError: If a line is invalid, except the last, which a crash can cut off.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    raw = content.split(b"\n")[:-1]
    lines: list[LogLine] = []
    length = 0
    for number, text in enumerate(raw, 1):
        try:
            line = _parsed(text, lines[-1].revision if lines else None)
        except ValueError as error:
            if number == len(raw):
                break
            raise DamagedAnswersError(str(path), f"line {number} is not a commit.") from error
        lines.append(line)
        length += len(text) + 1
    return lines, length


def append(path: Path, length: int, lines: Sequence[LogLine]) -> None:
    """Append lines durably after the first `length` bytes; an error leaves the log unchanged."""
    content = b"".join(
        orjson.dumps(line.model_dump(mode="json", exclude_defaults=True)) + b"\n" for line in lines
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.ftruncate(descriptor, length)  # removes a line cut off by a crash
        try:
            written = os.pwrite(descriptor, content, length)
            while written < len(content):
                written += os.pwrite(descriptor, content[written:], length + written)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, length)
            raise
    finally:
        os.close(descriptor)


def state_at(lines: Sequence[LogLine], revision: str) -> dict[str, StoredFile]:
    """Return the files at a revision by path.

    Raises:
        KeyError: If the log has no such revision.
    """
    state: dict[str, StoredFile] = {}
    for line in lines:
        for path, change in line.changes.items():
            state[path] = StoredFile(path, change.size, change.sha256)
        for path in line.removed:
            state.pop(path, None)
        if line.revision == revision:
            return state
    raise KeyError(revision)


def _parsed(text: bytes, parent: str | None) -> LogLine:
    try:
        line = LogLine.model_validate_json(text)
        for path in (*line.changes, *line.removed):
            check_path("", path)
    except (ValidationError, RepositoryError) as error:
        raise ValueError("not a line of the log") from error
    if line.parent != parent or line.revision != _revision(line):
        raise ValueError("does not follow the line before")
    return line


def _revision(line: LogLine) -> str:
    canonical = orjson.dumps(
        line.model_dump(mode="json", exclude={"revision"}, exclude_defaults=True),
        option=orjson.OPT_SORT_KEYS,
    )
    return hashlib.sha1(canonical, usedforsecurity=False).hexdigest()
