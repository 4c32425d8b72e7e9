"""The log that makes a folder versioned: one line a commit, and a line that is whole is what commits.

The log may come from a stranger, with a downloaded folder: it is validated on reading.
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
from regrade.settings import Settings


class Change(Settings):
    """What a commit wrote at one path."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class LogLine(Settings):
    """One commit."""

    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    """sha1 of all else in the line, as JSON with sorted keys."""
    parent: str | None
    date: str | None
    """ISO 8601 in UTC; None for the files that were there before the log."""
    message: str
    changes: dict[str, Change]


def new_line(
    parent: str | None, date: str | None, message: str, changes: Mapping[str, Change]
) -> LogLine:
    """Return the line of a commit."""
    line = LogLine(
        revision="0" * 40, parent=parent, date=date, message=message, changes=dict(changes)
    )
    return line.model_copy(update={"revision": _revision(line)})


def read_log(path: Path) -> tuple[list[LogLine], int]:
    """Return the commits, oldest first, and the length in bytes of the log up to the last whole line.

    Raises:
        DamagedAnswersError: If any line but the last is not one: the last may have been cut by a crash.
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
    """Add lines after the first `length` bytes, durably; on an error the log is as it was."""
    content = b"".join(orjson.dumps(line.model_dump(mode="json")) + b"\n" for line in lines)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.ftruncate(descriptor, length)  # what a crash left of a line
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
        if line.revision == revision:
            return state
    raise KeyError(revision)


def _parsed(text: bytes, parent: str | None) -> LogLine:
    try:
        line = LogLine.model_validate_json(text)
        for path in line.changes:
            check_path("", path)
    except (ValidationError, RepositoryError) as error:
        raise ValueError("not a line of the log") from error
    if line.parent != parent or line.revision != _revision(line):
        raise ValueError("does not follow the line before")
    return line


def _revision(line: LogLine) -> str:
    canonical = orjson.dumps(
        line.model_dump(mode="json", exclude={"revision"}), option=orjson.OPT_SORT_KEYS
    )
    return hashlib.sha1(canonical, usedforsecurity=False).hexdigest()
