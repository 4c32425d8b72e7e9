"""Answer repositories in a folder: files at their paths, and their history in `.regrade/`.

Design: docs/decisions/0002-local-repository.md.
"""

import errno
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson

from regrade.answers.base import StoredFile
from regrade.answers.content import REVISION, Content, check_path, content_hashes, describe
from regrade.answers.local_files import CARD, SHARD, Files
from regrade.answers.local_history import Commit, FileChange, History, State, new_commit
from regrade.records.specification import IMAGES, TOPS
from regrade.settings.errors import DamagedAnswersError, HeadMovedError, HubError, RepositoryError
from regrade.settings.files import at_home, file_sha256

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers for a full disk, an exceeded quota and a file that is too large."""
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_CONTENT = {".cache", ".DS_Store", ".git", ".gitattributes", ".gitignore", ".gitkeep", "sweeps"}
"""Files and folders in an empty repository; repositories of sweeps are inside `sweeps`."""


class LocalRepository:
    """A folder with the layout of a repository on the Hub. The first commit creates it."""

    def __init__(self, folder: Path) -> None:
        """Name an existing or future folder; nothing is read or created yet."""
        self.folder = Path(os.path.abspath(at_home(folder)))  # noqa: PTH100 - links stay as named
        self._own = self.folder / ".regrade"
        self._history = History(self.uri, self._own)
        self._files = Files(self.folder, self._own)
        self._adopted: tuple[object, Commit, State] | None = None
        self._is_tidy = False

    @property
    def uri(self) -> str:
        """Absolute path of the folder."""
        return str(self.folder)

    def head(self) -> str | None:
        """Return the newest revision, or None if the folder is missing or empty.

        Raises:
            RepositoryError: If the folder has files but no answer repository.
        """
        state = self._head()
        return state.revision if state else None

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
        inside = (self.folder.glob(pattern) for pattern in _WRITTEN)
        for written in (folder, *(path for paths in inside for path in paths)):
            if not written.is_dir() or not os.access(
                written, os.W_OK | os.X_OK, effective_ids=effective
            ):
                raise self._not_writable(f"no write access to '{written}'")

    def resolve(self, revision: str) -> str:
        """Return the full form of a shortened revision (4 digits or more), or of `main`, the head."""
        head = self._head()
        if head is not None and revision in ("main", head.revision):
            return head.revision
        known = {commit.revision for commit in self._history.commits()}
        known |= {head.revision} if head else set()
        fitting = [full for full in known if full.startswith(revision)]
        if len(revision) < 4 or len(fitting) != 1:
            raise RepositoryError(
                self.uri,
                f"'{revision}' should match one revision, it matches {len(fitting) or 'none'}.",
            )
        return fitting[0]

    def files(self, revision: str, prefix: str = "") -> Mapping[str, StoredFile]:
        """Return the files in a folder at a revision, by path. The head has the card as people edited it."""
        found = self._state(revision).listing.under(prefix.strip("/"))
        card = None if prefix.strip("/") else self._edited_card(revision)
        return found if card is None else {**found, CARD: card}

    def fetch(self, path: str, revision: str) -> Path:
        """Return a file with the content of `path` at a revision, after checking its sha256."""
        stored = self._state(revision).files.get(path)
        if path == CARD:
            stored = self._edited_card(revision) or stored
        if stored is None:
            raise RepositoryError(self.uri, f"there is no file '{path}' at revision {revision}.")
        if (found := self._files.find(stored)) is not None:
            return found
        working = self.folder / path
        other = (
            f"{working.stat().st_size} bytes of other content" if working.is_file() else "no file"
        )
        raise DamagedAnswersError(
            str(working),
            f"revision {revision[:8]} has {stored.size} bytes with sha256 {stored.sha256}, the folder has {other}. "
            "Restore the file, or generate its answers again with `--heal`.",
        )

    def holds(self, file: StoredFile) -> bool:
        """Return True if a shard is kept with its size, without reading it."""
        return self._files.holds(file)

    def commit(
        self,
        additions: Mapping[str, Path | bytes],
        message: str,
        *,
        parent: str | None,
        removed: Collection[str] = (),
    ) -> str:
        """Write and remove files and return the new head; unchanged files make no new commit.

        What was written is read back before it returns.
        """
        with self._writing():
            contents = describe(self.uri, additions)
            # refuses a folder with other files before creating any
            state = self._adopted_or(self._head())
            self._files.prepare()
            return self._commit(state, contents, removed, message, parent)

    def url(self, revision: str, path: str = "") -> None:  # noqa: ARG002 - a folder has no page
        """Return None: a folder has no page."""
        return

    def differences(self, *, copies: bool = True) -> Iterator[tuple[str, str]]:
        """Yield the files at whose paths something else stands than the head says, and what is wrong.

        Args:
            copies: Read all kept copies, too, and yield those that are damaged.

        Raises:
            DamagedAnswersError: If a commit is missing or changed.
        """
        self._history.check()
        found = dict(self._files.on_disk())  # first: a file is committed before it is at its path
        state = self._head()
        stored = state.files if state else {}
        lost = set()
        for path in sorted(stored.keys() | found.keys()):
            file = stored.get(path)
            if file is None:
                if path != CARD:
                    yield path, f"no commit lists it{_SWEEP if SHARD.fullmatch(path) else '.'}"
            elif path == CARD or self._files.is_at_its_path(file):
                continue
            elif self._files.find(file):
                what = (
                    "another file stands at its path" if path in found else "it is not at its path"
                )
                yield path, f"{what}, but it is kept{_SWEEP}"
            else:
                lost.add(file.sha256)  # which reading it tells
        for kept in self._files.damaged() if copies else ():
            if kept.stem not in lost:
                path = kept.relative_to(self.folder).as_posix()
                yield (
                    path,
                    "this copy is damaged: a commit with it can be read only while the file stands at its path.",
                )

    def tidy(self) -> None:
        """Put files at their paths, and remove shards that no commit lists, as after a kill in a commit."""
        with self._writing():
            if self._adopted_or(self._head()) is not None:
                self._files.prepare()
                self._put_in_order()
                self._files.flush()

    def _put_in_order(self) -> None:
        found = dict(self._files.on_disk())  # first: a file is committed before it is at its path
        state = self._history.head()
        if state is None:
            return
        self._files.clean()
        files = (file for file in state.files.values() if file.path != CARD)
        self._place(state, {f.path for f in files if not self._is_as_before(f, found.get(f.path))})
        for path in found.keys() - state.files.keys():
            if SHARD.fullmatch(path):
                self._files.remove(path)
        self._is_tidy = True

    def _commit(
        self,
        state: State | None,
        contents: Sequence[Content],
        removed: Collection[str],
        message: str,
        parent: str | None,
    ) -> str:
        stored = state.files if state else {}
        head = state.revision if state else None
        changes = {
            content.path: FileChange(sha256=content.sha256, size=content.size)
            for content in contents
            if content.path not in stored or stored[content.path].sha256 != content.sha256
        }
        leaving = sorted(path for path in removed if path in stored)
        if (changes or leaving) and head != parent:
            was, now = (revision[:8] if revision else "empty" for revision in (parent, head))
            raise HeadMovedError(self.uri, "committing", f"the head is {now}, no longer {was}.")
        for content in contents:
            if content.path in changes or not self._files.is_at_its_path(content):
                self._files.keep(content, stored.get(content.path))
        self._files.flush()
        if changes or leaving:
            date = datetime.now(UTC).isoformat(timespec="seconds")
            state = self._history.add(state, new_commit(head, date, message, changes, leaving))
        if state is None:
            raise AssertionError("a commit has files")
        written = {content.path for content in contents}
        try:
            self._place(state, written | set(leaving))
            if not self._is_tidy:  # an earlier process may have been killed
                self._put_in_order()
            self._files.flush()
        except OSError as error:
            problem = f"the files were committed, but not put at their paths ({error.strerror})."
            raise HubError(self.uri, "committing", problem, False) from error
        self._read_back(state, contents)
        self._history.note_checkpoint(state)
        return state.revision

    def _place(self, state: State, paths: Collection[str]) -> None:
        """Put the files of a commit at their paths: shards first, so that a manifest never names one that is not there."""
        while paths:
            for path in sorted(paths, key=lambda path: not path.endswith(".parquet")):
                if path in state.files:
                    self._files.place(state.files[path])
            for path in paths:
                if path not in state.files:
                    self._files.remove(path)
            # Another process may have committed and placed the same paths meanwhile: what was put there is older.
            newest = self._history.head()
            if newest is None or newest.number <= state.number:
                return
            paths = self._history.changed_since(state.number) & set(paths)
            state = newest

    def _read_back(self, state: State, contents: Sequence[Content]) -> None:
        """Read what was written, from the disk, and write once more what reads otherwise."""
        self._files.prepare()
        for content in contents:
            file = state.files[content.path]
            if self._files.find(file) is None:
                self._files.keep(content, None)
                self._place(state, {content.path})
                self._files.flush()
                if self._files.find(file) is None:
                    problem = f"'{content.path}' was written and flushed to disk twice, but reads otherwise."
                    raise HubError(self.uri, "committing", problem, True)

    def _head(self) -> State | None:
        if self.folder.exists() and not self.folder.is_dir():
            raise RepositoryError(self.uri, "it is a file. Name a folder.")
        state = self._history.head()
        if state is not None or self._files.objects.exists():
            return state
        if any(self.folder.glob("answers/*/*/*/manifest.json")):
            return self._adoption()
        if self.folder.is_dir():
            others = sorted({entry.name for entry in self.folder.iterdir()} - _NO_CONTENT)
            # Asked last, because a first commit of another process may be going on.
            if others and not self._own.is_dir():
                raise RepositoryError(
                    self.uri,
                    f"it has other files ('{others[0]}') and no answers. Name a new or empty folder, or an "
                    "answer repository.",
                )
        return None

    def _adoption(self) -> State:
        """Return the state of a folder that has answers but no history, such as a copy from the Hub.

        It depends only on the files, so that readers see the same revision until the first commit stores it. Shards are as
        their manifest says, and those that it does not list are left out: a kill can leave them.
        """
        found = {path: file for path, file in self._files.on_disk() if file.is_file()}
        status = {path: file.stat() for path, file in found.items()}
        signature = tuple((path, s.st_size, s.st_mtime_ns) for path, s in sorted(status.items()))
        if self._adopted is None or self._adopted[0] != signature:
            changes: dict[str, FileChange] = {}
            listed: dict[str, dict[str, FileChange]] = {}
            for path in sorted(found):
                check_path(self.uri, path)
                folder, _, name = path.rpartition("/")
                if SHARD.fullmatch(path):
                    if folder not in listed:
                        listed[folder] = _listed(self.folder / folder / "manifest.json")
                    shard = listed[folder].get(name)
                    if listed[folder] and shard is None:
                        continue
                    if shard is not None and shard.size == status[path].st_size:
                        changes[path] = shard
                        continue
                changes[path] = FileChange(
                    sha256=file_sha256(found[path]), size=status[path].st_size
                )
            line = new_commit(None, None, "Files that were here before the log", changes)
            self._adopted = signature, line, State(0, "", {}).after(line)
        return self._adopted[2]

    def _adopted_or(self, state: State | None) -> State | None:
        """Return a state after storing it, if it is that of a folder without a history."""
        if state is not None and self._adopted and self._history.head() is None:
            # Before `objects` is there: a folder that has it, and no history, was never a copy.
            return self._history.add(None, self._adopted[1])
        return state

    def _state(self, revision: str) -> State:
        if self._adopted and self._adopted[2].revision == revision:
            return self._adopted[2]
        try:
            return self._history.at(revision)
        except KeyError as error:
            head = self._head()
            if head is not None and head.revision == revision:
                return head
            hint = "" if REVISION.fullmatch(revision) else " (40 hex digits; resolve it first)"
            raise RepositoryError(self.uri, f"it has no revision '{revision}'{hint}.") from error

    def _edited_card(self, revision: str) -> StoredFile | None:
        """Return the card in the folder, if the revision is the head."""
        card = self.folder / CARD
        if revision != self.head() or not card.is_file():
            return None
        size, sha256, _ = content_hashes(card)
        return StoredFile(CARD, size, sha256)

    def _is_as_before(self, file: StoredFile, found: Path | None) -> bool:
        """Return True if a file is at its path; of Parquet files only the size is compared."""
        if found is None:
            return False
        if file.path.endswith(".parquet"):
            # Meanwhile, a newer commit may have removed it.
            return found.is_file() and found.stat().st_size == file.size
        return self._files.is_at_its_path(file)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
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


_SWEEP = "; `regrade verify --sweep` puts that right."
_WRITTEN = (
    ".regrade",
    ".regrade/*/",
    ".regrade/commits/*/",
    *(
        f"{top}{below}"
        for top in (*TOPS, IMAGES, "scores", "labels")
        for below in ("", "/*/", "/*/*/")
    ),
)
"""Folders in which a commit makes files or folders."""


def _listed(manifest: Path) -> dict[str, FileChange]:
    """Return the shards that a manifest lists, by name; none if it cannot be read."""
    try:
        shards = orjson.loads(manifest.read_bytes())["shards"]
        return {s["name"]: FileChange(sha256=s["sha256"], size=s["bytes"]) for s in shards}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
