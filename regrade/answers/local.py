"""Answer repositories in a folder: files at their paths, and their history in `.regrade/`.

Design: docs/decisions/0002-local-repository.md.
"""

import errno
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from regrade.answers.base import StoredFile
from regrade.answers.content import REVISION, Content, check_path, describe, file_hashes
from regrade.answers.local_files import (
    FULL,
    Change,
    FileWriter,
    LogLine,
    append,
    new_line,
    read_log,
    state_at,
)
from regrade.settings.errors import DamagedAnswersError, HeadMovedError, HubError, RepositoryError
from regrade.settings.files import file_sha256

CARD = "README.md"
"""The only file that people may edit in place."""
LOCK_SECONDS = 300.0
"""Longest wait for the commit of another process, in seconds."""
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_CONTENT = {".cache", ".DS_Store", ".git", ".gitattributes", ".gitignore", ".gitkeep", "sweeps"}
"""Files and folders in an empty repository; repositories of sweeps are inside `sweeps`."""


class LocalRepository:
    """A folder with the layout of a repository on the Hub. The first commit creates it."""

    def __init__(self, folder: Path, *, lock_seconds: float = LOCK_SECONDS) -> None:
        """Name a folder; nothing is read or created yet.

        Args:
            folder: Existing or future folder.
            lock_seconds: Longest wait for another process's commit.
        """
        self.folder = Path(os.path.abspath(folder.expanduser()))  # noqa: PTH100 - links stay as named
        self._history = self.folder / ".regrade"
        self._log_file = self._history / "log.jsonl"
        self._writer = FileWriter(self.folder, self._history)
        self._lock_seconds = lock_seconds
        self._read: tuple[object, tuple[list[LogLine], int]] | None = None
        self._adopted: tuple[object, LogLine] | None = None
        self._folded: tuple[list[LogLine], str, dict[str, StoredFile]] | None = None

    @property
    def uri(self) -> str:
        """Absolute path of the folder."""
        return str(self.folder)

    def head(self) -> str | None:
        """Return the newest revision, or None if the folder is missing or empty.

        Raises:
            RepositoryError: If the folder has files but no answer repository.
        """
        lines, _ = self._lines()
        return lines[-1].revision if lines else None

    def check_writable(self) -> None:
        """Check that a commit can write into the folder.

        Raises:
            RepositoryError: If it cannot.
        """
        self.head()
        folder = self.folder
        while not folder.exists():
            folder = folder.parent
        effective = os.access in os.supports_effective_ids
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
            raise self._not_writable(f"no write access to '{folder}'")

    def resolve(self, revision: str) -> str:
        """Return the full form of a shortened revision (4 digits or more), or of `main`, the head."""
        revisions = [line.revision for line in self._lines()[0]]
        if revision == "main" and revisions:
            return revisions[-1]
        fitting = [full for full in revisions if full.startswith(revision)]
        if len(revision) < 4 or len(fitting) != 1:
            raise RepositoryError(
                self.uri,
                f"'{revision}' should match one revision, it matches {len(fitting) or 'none'}.",
            )
        return fitting[0]

    def files(self, revision: str, prefix: str = "") -> dict[str, StoredFile]:
        """Return the files in a folder at a revision, by path. The head has the card as people edited it."""
        start = prefix.strip("/") + "/" if prefix.strip("/") else ""
        return {p: file for p, file in self._state(revision).items() if p.startswith(start)}

    def fetch(self, path: str, revision: str) -> Path:
        """Return a file with the content of `path` at a revision, after checking its sha256."""
        stored = self._state(revision).get(path)
        if stored is None:
            raise RepositoryError(self.uri, f"there is no file '{path}' at revision {revision}.")
        working = self.folder / path
        for candidate in (working, self._writer.objects / str(stored.sha256)):
            if candidate.is_file() and file_sha256(candidate) == stored.sha256:
                return candidate
        found = f"{working.stat().st_size} bytes" if working.is_file() else "no file"
        raise DamagedAnswersError(
            str(working),
            f"revision {revision[:8]} has {stored.size} bytes with sha256 {stored.sha256}, the folder has {found} "
            "of other content. Restore the file, or generate its answers again with `--heal`.",
        )

    def commit(
        self,
        additions: Mapping[str, Path | bytes],
        message: str,
        *,
        parent: str | None,
        removed: Collection[str] = (),
    ) -> str:
        """Write and remove files and return the new head; unchanged files make no new commit."""
        with self._writing():
            contents = describe(self.uri, additions)
            self._lines()  # refuses a folder with other files before creating any
            self._history.mkdir(parents=True, exist_ok=True)
            with FileLock(self._history / "lock", timeout=self._lock_seconds):
                return self._commit(contents, removed, message, parent)

    def url(self, revision: str, path: str = "") -> None:  # noqa: ARG002 - a folder has no page
        """Return None: a folder has no page."""
        return

    def _commit(
        self,
        contents: Sequence[Content],
        removed: Collection[str],
        message: str,
        parent: str | None,
    ) -> str:
        lines, length = self._lines()
        if lines and length == 0:  # files older than the log
            append(self._log_file, length, lines)
            lines, length = self._lines()
        self._writer.prepare()
        head = lines[-1].revision if lines else None
        stored = state_at(lines, head) if head else {}
        changes = {
            content.path: Change(sha256=content.sha256, size=content.size)
            for content in contents
            if content.path not in stored or stored[content.path].sha256 != content.sha256
        }
        leaving = sorted(path for path in removed if path in stored)
        if (changes or leaving) and head != parent:
            was, now = (revision[:8] if revision else "empty" for revision in (parent, head))
            raise HeadMovedError(self.uri, "committing", f"the head is {now}, no longer {was}.")
        with ExitStack() as undo:
            self._writer.write(contents, leaving, CARD, undo)
            if changes or leaving:
                date = datetime.now(UTC).isoformat(timespec="seconds")
                line = new_line(head, date, message, changes, leaving)
                append(self._log_file, length, [line])
                head = line.revision
            undo.pop_all()
        return str(head)

    def _lines(self) -> tuple[list[LogLine], int]:
        """Return the commits, and the length of the log in bytes (0 if it does not exist)."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RepositoryError(self.uri, "it is a file. Name a folder.")
        lines, length = self._logged()
        if lines or self._writer.objects.exists():
            return lines, length
        if any(self.folder.glob("answers/*/*/*/manifest.json")):
            return [self._adoption()], 0
        if self.folder.is_dir() and not self._history.is_dir():
            others = sorted({entry.name for entry in self.folder.iterdir()} - _NO_CONTENT)
            if others:
                raise RepositoryError(
                    self.uri,
                    f"it has other files ('{others[0]}') and no answers. Name a new or empty folder, or an "
                    "answer repository.",
                )
        return [], 0

    def _logged(self) -> tuple[list[LogLine], int]:
        try:
            status = self._log_file.stat()
        except FileNotFoundError:
            return [], 0
        signature = status.st_size, status.st_mtime_ns, status.st_ino
        if self._read is None or self._read[0] != signature:
            self._read = signature, read_log(self._log_file)
        return self._read[1]

    def _adoption(self) -> LogLine:
        """Return the first commit of a folder that has answers but no log, such as a copy from the Hub.

        It depends only on the files, so that readers see the same revision until the first commit stores it.
        """
        files = {
            path: (entry.stat().st_size, entry.stat().st_mtime_ns)
            for path, entry in self._unlogged_files()
        }
        signature = tuple(sorted(files.items()))
        if self._adopted is None or self._adopted[0] != signature:
            changes = {}
            for path in sorted(files):
                size, sha256, _ = file_hashes(self.folder / path)
                changes[path] = Change(sha256=sha256, size=size)
            line = new_line(None, None, "Files that were here before the log", changes)
            self._adopted = signature, line
        return self._adopted[1]

    def _unlogged_files(self) -> Iterator[tuple[str, Path]]:
        for root in (CARD, "answers", "scores", "aliases", "measurements"):
            for entry in [self.folder / root, *(self.folder / root).rglob("*")]:
                path = entry.relative_to(self.folder).as_posix()
                if entry.is_file() and "/." not in path:
                    check_path(self.uri, path)
                    yield path, entry

    def _state(self, revision: str) -> dict[str, StoredFile]:
        lines, _ = self._lines()
        try:
            folded = self._folded  # other threads may replace it
            if folded is None or folded[:2] != (lines[-1:], revision):
                self._folded = folded = lines[-1:], revision, state_at(lines, revision)
            state = dict(folded[2])
        except KeyError as error:
            shape = "" if REVISION.fullmatch(revision) else " (40 hex digits; resolve it first)"
            raise RepositoryError(self.uri, f"it has no revision '{revision}'{shape}.") from error
        card = self.folder / CARD
        if revision == lines[-1].revision and card.is_file():
            size, sha256, _ = file_hashes(card)
            state[CARD] = StoredFile(CARD, size, sha256)
        return state

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Timeout as error:
            problem = f"another process has been committing for {self._lock_seconds:.0f} s."
            raise HubError(self.uri, "committing", problem, True) from error
        except OSError as error:
            if error.errno in _READ_ONLY:
                raise self._not_writable(f"{error.strerror}: '{error.filename}'") from error
            problem = error.strerror or type(error).__name__
            if error.errno in FULL:
                problem = f"the disk is full ({problem}). Nothing was committed. Free some space, then repeat."
            raise HubError(self.uri, "committing", problem, False) from error

    def _not_writable(self, reason: str) -> RepositoryError:
        return RepositoryError(
            self.uri, f"is not writable ({reason}). Name another folder, or change its permissions."
        )
