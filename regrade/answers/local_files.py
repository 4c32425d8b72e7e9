"""Durable writes into a folder: replaced files are kept, and an error changes nothing."""

import errno
import hashlib
import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

from regrade.answers.content import CHUNK_BYTES, Content
from regrade.errors import HubError
from regrade.files import file_sha256, sync

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers for a full disk, an exceeded quota and a file that is too large."""


class FileWriter:
    """Writes files into `folder`; `history`, on the same file system, has replaced and temporary files."""

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
        """Write and remove files: first copy all of them, because a disk may be full, then only rename.

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
        return False  # not every file system has hard links
    return True
