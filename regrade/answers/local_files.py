"""Durable writes into a folder: replaced files are kept, and an error leaves the folder unchanged."""

import errno
import hashlib
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import orjson
from pydantic import Field, ValidationError

from regrade.answers.base import StoredFile
from regrade.answers.content import CHUNK_BYTES, Content, check_path
from regrade.settings import StrictModel
from regrade.settings.errors import DamagedAnswersError, HubError, RepositoryError
from regrade.settings.files import file_sha256, sync

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers for a full disk, an exceeded quota and a file that is too large."""


class FileWriter:
    """Writes files into `folder`; `history`, on the same file system, holds replaced and temporary files."""

    def __init__(self, folder: Path, history: Path) -> None:
        self.folder = folder
        self.objects = history / "objects"
        self._temporary = history / "tmp"

    def prepare(self) -> None:
        """Create the working folders, and remove files that a killed process left; the caller holds the lock."""
        self._temporary.mkdir(exist_ok=True)
        for leftover in self._temporary.iterdir():
            if leftover.is_file():
                leftover.unlink(missing_ok=True)
        self.objects.mkdir(exist_ok=True)

    def write(
        self, contents: Sequence[Content], removed: Collection[str], edited: str, undo: ExitStack
    ) -> None:
        """Write and remove files: first copy all of them, because a disk may be full, then rename.

        Args:
            contents: Files to write.
            removed: Paths of files to remove; their content is kept in `objects`.
            edited: Path of a file that people edit in place, which is copied to `objects` at once.
            undo: Receives the callbacks that undo all changes.

        Raises:
            OSError: If the file system refuses; the caller closes `undo`.
        """
        staged = []
        for content in sorted(contents, key=lambda content: not content.path.endswith(".parquet")):
            target = self.folder / content.path
            old = file_sha256(target) if target.is_file() else None
            if old == content.sha256:
                continue
            if old is not None and not self._kept(old).is_file():
                self._duplicate(target, self._kept(old), link=True)
            temporary = self._new_name()
            undo.callback(temporary.unlink, missing_ok=True)
            self._copy(content, temporary)
            if content.path == edited and not self._kept(content.sha256).is_file():
                self._duplicate(temporary, self._kept(content.sha256), link=False)
            staged.append((temporary, target, old))
        leaving = []
        for path in removed:
            target = self.folder / path
            if target.is_file():
                old = file_sha256(target)
                if not self._kept(old).is_file():
                    self._duplicate(target, self._kept(old), link=True)
                leaving.append((target, old))
        folders = {self.folder, self.objects, self.objects.parent}
        for temporary, target, old in staged:
            target.parent.mkdir(parents=True, exist_ok=True)
            undo.callback(self._put_back, target, old)
            temporary.replace(target)
            folders.update(p for p in target.parents if p.is_relative_to(self.folder))
        for target, old in leaving:
            undo.callback(self._put_back, target, old)
            target.unlink()
            folders.add(target.parent)
        for folder in folders:
            sync(folder)

    def _copy(self, content: Content, target: Path) -> None:
        digest = hashlib.sha256()
        with content.open() as source, target.open("wb") as file:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != content.sha256:
            problem = f"the file for '{content.path}' changed while it was read."
            raise HubError(str(self.folder), "committing", problem, True)

    def _duplicate(self, source: Path, target: Path, *, link: bool) -> None:
        """Create `target` atomically with the content of `source`, as a hard link if possible."""
        temporary = self._new_name()
        with ExitStack() as undo:
            undo.callback(temporary.unlink, missing_ok=True)
            if not link or not _linked(source, temporary):
                shutil.copyfile(source, temporary)
                sync(temporary)
            temporary.replace(target)

    def _put_back(self, target: Path, old: str | None) -> None:
        if old is None:
            target.unlink(missing_ok=True)
        else:
            self._duplicate(self._kept(old), target, link=True)

    def _kept(self, sha256: str) -> Path:
        return self.objects / sha256

    def _new_name(self) -> Path:
        return self._temporary / uuid4().hex


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in FULL:
            raise
        return False  # some file systems have no hard links
    return True


# The log of a versioned folder: one line per commit; the complete line is the commit.
#
# The log of a downloaded folder is untrusted input: it is validated on reading.


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
