"""History of an answer folder: one file per commit, made exclusively, so that no lock is needed.

The history of a downloaded folder is untrusted input: it is validated on reading. docs/decisions/0002-local-repository.md
describes the files.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from uuid import uuid4

import orjson
from pydantic import Field, ValidationError

from regrade.answers.base import Listing, StoredFile
from regrade.answers.content import check_path
from regrade.settings import StrictModel
from regrade.settings.errors import DamagedAnswersError, HeadMovedError, HubError, RepositoryError
from regrade.settings.files import (
    atomic_write,
    make_folder,
    sync,
    time_there,
    write_atomically,
    write_durably,
)

NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""Error numbers of file systems without hard links."""
COMMITS_PER_FOLDER = 250
COMMITS_PER_CHECKPOINT = 100
TORN_SECONDS = 60.0
"""Age in seconds from which a newest commit that is cut off did not happen, and is no longer being written."""
_STATES_KEPT = 4
_COMMIT = re.compile(r"([0-9]{8})\.json")
_CLOSED = b'{"closed":"The commits go on in the folder commits: update regrade on this machine."}\n'
"""Line after the last of `log.jsonl`. It stands there twice: versions that know only this file overwrite a broken last line,
and refuse one that others follow."""


class FileChange(StrictModel):
    """The file that a commit wrote at a path."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0, lt=2**63)


class Commit(StrictModel):
    """A commit."""

    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    """sha1 of the other fields, as JSON with sorted keys."""
    parent: str | None
    date: str | None
    """ISO 8601 in UTC; None for files older than the history."""
    message: str
    changes: dict[str, FileChange]
    removed: tuple[str, ...] = ()
    """Paths that the commit removed."""

    @property
    def stored(self) -> bytes:
        """The commit as it is stored: a line of JSON."""
        return orjson.dumps(self.model_dump(mode="json", exclude_defaults=True)) + b"\n"


def new_commit(
    parent: str | None,
    date: str | None,
    message: str,
    changes: Mapping[str, FileChange],
    removed: Sequence[str] = (),
) -> Commit:
    """Return a commit with its revision."""
    commit = Commit(
        revision="0" * 40,
        parent=parent,
        date=date,
        message=message,
        changes=dict(changes),
        removed=tuple(removed),
    )
    return commit.model_copy(update={"revision": _revision(commit)})


@dataclass(frozen=True)
class State:
    """All files after a commit."""

    number: int
    """Number of the commit, from 1; 0 before the first."""
    revision: str
    files: dict[str, StoredFile]

    def after(self, commit: Commit) -> "State":
        """Return the state after the next commit."""
        files = dict(self.files)
        _apply(files, commit)
        return State(self.number + 1, commit.revision, files)

    @cached_property
    def listing(self) -> Listing:
        """The files, found by folder."""
        return Listing(self.files.values())


class _Checkpoint(StrictModel):
    """All files after a commit, so that not every commit need be read."""

    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    files: dict[str, FileChange]
    sha256: str
    """Hash of `files` as JSON with sorted keys."""


class History:
    """The commits of an answer folder, in its folder `.regrade`."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._uri, self._top = uri, folder.parent
        self._log_file = folder / "log.jsonl"
        self._commits = folder / "commits"
        self._checkpoints = folder / "checkpoints"
        self._log: tuple[object, tuple[list[Commit], int]] | None = None
        self._head: State | None = None
        self._states: dict[str, State] = {}

    def head(self) -> State | None:
        """Return the state after the newest commit; None before the first.

        Raises:
            DamagedAnswersError: If a commit is missing, or cannot be read.
        """
        newest = self._newest()
        known = self._head  # other threads may replace it
        if known is None or known.number > newest or not self._is_followed(known):
            known = self._checkpoint(newest) or self._state_of_log()
        for number in range(known.number + 1, newest + 1):
            known = known.after(self._read(number, known.revision or None))
        self._head = known
        if not known.number:
            return None
        self._remember(known)
        return known

    def at(self, revision: str) -> State:
        """Return the state at a revision.

        Raises:
            KeyError: If there is no such revision.
            DamagedAnswersError: If a commit is missing, or cannot be read.
        """
        if found := self._states.get(revision):
            return found
        head = self.head()
        if head is not None and head.revision == revision:
            return head
        files: dict[str, StoredFile] = {}
        for number, commit in enumerate(self.commits(), 1):
            _apply(files, commit)
            if commit.revision == revision:
                return self._remember(State(number, revision, files))
        raise KeyError(revision)

    def commits(self) -> Iterator[Commit]:
        """Yield all commits, oldest first.

        Raises:
            DamagedAnswersError: If a commit is missing, or cannot be read.
        """
        lines, _ = self._logged()
        yield from lines
        parent = lines[-1].revision if lines else None
        for number in range(len(lines) + 1, self._newest() + 1):
            commit = self._read(number, parent)
            parent = commit.revision
            yield commit

    def changed_since(self, number: int) -> set[str]:
        """Return the paths that commits after one changed or removed."""
        paths: set[str] = set()
        for later in range(number + 1, self._newest() + 1):
            commit = self._parsed(self._file(later).read_bytes())
            paths.update(commit.changes, commit.removed)
        return paths

    def add(self, after: State | None, commit: Commit) -> State:
        """Store a commit, which follows a state: the only step that makes it happen.

        Raises:
            HeadMovedError: If another commit follows the state.
            OSError: If the file system refuses; then there is no commit.
        """
        before = after or State(0, "", {})
        path = self._file(before.number + 1)
        make_own_folder(path.parent, self._top)
        self._close_log()
        if len(self._logged()[0]) > before.number:
            raise HeadMovedError(self._uri, "committing", "another commit came first.")
        content = commit.stored
        for again in (False, True):
            if not _created(path, content) and path.read_bytes() != content:
                old = time_there(path.parent) - TORN_SECONDS
                if not again and _is_cut_off(path) and path.stat().st_mtime <= old:
                    path.rename(path.with_name(f".torn-{uuid4().hex}"))
                    continue
                raise HeadMovedError(self._uri, "committing", "another commit came first.")
            break
        sync(path.parent)
        if path.read_bytes() != content:
            problem = f"the commit was written to '{path}', but reads otherwise."
            raise HubError(self._uri, "committing", problem, True)
        self._head = before.after(commit)
        return self._remember(self._head)

    def note_checkpoint(self, state: State) -> None:
        """Write down all files after a commit, now and then; the two newest of these files are kept."""
        have = self._noted()
        if state.number < max(have, default=0) + COMMITS_PER_CHECKPOINT:
            return
        files = {
            path: FileChange(sha256=str(f.sha256), size=f.size) for path, f in state.files.items()
        }
        noted = _Checkpoint(revision=state.revision, files=files, sha256=_digest(files))
        make_own_folder(self._checkpoints, self._top)
        with suppress(OSError):  # it only saves time
            path = self._checkpoints / f"{state.number:08d}.json"
            write_atomically(path, noted.model_dump_json().encode())
            for number in have[:-1]:
                (self._checkpoints / f"{number:08d}.json").unlink(missing_ok=True)

    def check(self) -> None:
        """Read all commits, and compare what they give with the checkpoint.

        Raises:
            DamagedAnswersError: If a commit is missing or changed, or the checkpoint has other files.
        """
        files: dict[str, StoredFile] = {}
        known = self._checkpoint(self._newest())
        for number, commit in enumerate(self.commits(), 1):
            _apply(files, commit)
            if known and known.number == number and known.files != files:
                path = self._checkpoints / f"{number:08d}.json"
                raise DamagedAnswersError(
                    str(path), "it has other files than the commits. Delete it."
                )

    def _remember(self, state: State) -> State:
        states = {**self._states, state.revision: state}
        for oldest in list(states)[:-_STATES_KEPT]:
            del states[oldest]
        self._states = states
        return state

    def _is_followed(self, state: State) -> bool:
        """Return True if a state is that of a commit that is a file of its own, and still the same."""
        try:
            return self._parsed(self._file(state.number).read_bytes()).revision == state.revision
        except (FileNotFoundError, ValueError):
            return False

    def _newest(self) -> int:
        """Return the number of the newest commit that is a file of its own; 0 if there is none."""
        for folder in sorted(_names(self._commits), reverse=True):
            found = (
                int(m[1]) for n in _names(self._commits / folder) if (m := _COMMIT.fullmatch(n))
            )
            numbers = [number for number in found if self._file(number).parent.name == folder]
            if numbers:
                newest = max(numbers)
                return self._before(newest) if _is_cut_off(self._file(newest)) else newest
        return 0

    def _before(self, newest: int) -> int:
        """Return the number before a commit that is cut off, as one that is or was being written."""
        return newest - 1 if newest - 1 > len(self._logged()[0]) else 0

    def _read(self, number: int, parent: str | None) -> Commit:
        try:
            commit = self._parsed(self._file(number).read_bytes())
        except FileNotFoundError:
            raise DamagedAnswersError(str(self._file(number)), "this commit is missing.") from None
        except ValueError as error:
            raise self._not_a_commit(number) from error
        if commit.parent != parent:
            raise self._not_a_commit(number)
        return commit

    def _not_a_commit(self, number: int) -> DamagedAnswersError:
        return DamagedAnswersError(
            str(self._file(number)), "it is not a commit after the one before."
        )

    def _file(self, number: int) -> Path:
        return self._commits / f"{number // COMMITS_PER_FOLDER:05d}" / f"{number:08d}.json"

    def _noted(self) -> list[int]:
        return sorted(int(m[1]) for n in _names(self._checkpoints) if (m := _COMMIT.fullmatch(n)))

    def _checkpoint(self, newest: int) -> State | None:
        """Return the newest state that is written down, up to a commit."""
        for number in reversed([number for number in self._noted() if number <= newest]):
            try:
                content = (self._checkpoints / f"{number:08d}.json").read_bytes()
                noted = _Checkpoint.model_validate_json(content)
                for path in noted.files:
                    check_path("", path)
                commit = self._parsed(self._file(number).read_bytes())
            except (FileNotFoundError, ValueError, RepositoryError):
                continue  # the commits tell
            if commit.revision == noted.revision and noted.sha256 == _digest(noted.files):
                files = {p: StoredFile(p, c.size, c.sha256) for p, c in noted.files.items()}
                return State(number, noted.revision, files)
        return None

    def _state_of_log(self) -> State:
        lines, _ = self._logged()
        if lines and lines[-1].revision in self._states:
            return self._states[lines[-1].revision]
        files: dict[str, StoredFile] = {}
        for line in lines:
            _apply(files, line)
        return State(len(lines), lines[-1].revision if lines else "", files)

    # `log.jsonl`: the first commits of folders that were begun before each commit had a file of its own.

    def _logged(self) -> tuple[list[Commit], int]:
        try:
            status = self._log_file.stat()
        except FileNotFoundError:
            return [], 0
        signature = status.st_size, status.st_mtime_ns, status.st_ino
        if self._log is None or self._log[0] != signature:
            self._log = signature, self._read_log()
        return self._log[1]

    def _read_log(self) -> tuple[list[Commit], int]:
        """Return the commits, and the length in bytes up to the end of the last complete line.

        Raises:
            DamagedAnswersError: If a line is invalid, except the last, which a crash can cut off.
        """
        raw = self._log_file.read_bytes().removesuffix(2 * _CLOSED).split(b"\n")[:-1]
        lines: list[Commit] = []
        length = 0
        for number, text in enumerate(raw, 1):
            try:
                line = self._parsed(text)
                if line.parent != (lines[-1].revision if lines else None):
                    raise ValueError("does not follow the line before")
            except ValueError as error:
                if number == len(raw):
                    break
                problem = f"line {number} is not a commit."
                raise DamagedAnswersError(str(self._log_file), problem) from error
            lines.append(line)
            length += len(text) + 1
        return lines, length

    def _close_log(self) -> None:
        """Make versions of regrade that know only `log.jsonl` refuse the folder, before the first commit that it lacks."""
        _, length = self._logged()
        if length and not (content := self._log_file.read_bytes()).endswith(2 * _CLOSED):
            with atomic_write(self._log_file) as file:
                file.write(content[:length] + 2 * _CLOSED)

    @staticmethod
    def _parsed(text: bytes) -> Commit:
        try:
            commit = Commit.model_validate_json(text)
            for path in (*commit.changes, *commit.removed):
                check_path("", path)
        except (ValidationError, RepositoryError) as error:
            raise ValueError("not a commit") from error
        if commit.revision != _revision(commit):
            raise ValueError("its revision is another")
        return commit


def is_own(folder: Path, top: Path) -> bool:
    """Return False for a folder below `top` that is a link or below one: in a stranger's copy, links lead anywhere."""
    return folder.resolve() == top.resolve() / folder.relative_to(top)


def make_own_folder(folder: Path, top: Path) -> None:
    """Make a folder below `top`.

    Raises:
        DamagedAnswersError: If a link stands in its place.
    """
    if not is_own(folder, top):
        problem = "it is a link, or below one, so that nothing is written there. Put a folder in its place."
        raise DamagedAnswersError(str(folder), problem)
    make_folder(folder)


def _created(path: Path, content: bytes) -> bool:
    """Create a file with a content, all at once and durably; False if it exists.

    A hard link fails for all but one process, whichever clients of a network file system they run on, and the content is whole
    when the name appears. Where there are no hard links, the name comes first.
    """
    temporary = path.with_name(f".{uuid4().hex}")
    try:
        write_durably(temporary, content)
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            write_durably(path, content, exclusively=True)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _is_cut_off(path: Path) -> bool:
    """Return True if a commit has no end of a line; one that has is whole, or was changed."""
    return not path.read_bytes().endswith(b"\n")


def _apply(files: dict[str, StoredFile], commit: Commit) -> None:
    for path, change in commit.changes.items():
        files[path] = StoredFile(path, change.size, change.sha256)
    for path in commit.removed:
        files.pop(path, None)


def _names(folder: Path) -> list[str]:
    """Return the names in a folder: opening it asks a file server for its newest state, which looking up a name may not."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - faster
    except (FileNotFoundError, NotADirectoryError):
        return []


def _digest(files: Mapping[str, FileChange]) -> str:
    plain = {path: [change.sha256, change.size] for path, change in files.items()}
    return hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _revision(commit: Commit) -> str:
    canonical = orjson.dumps(
        commit.model_dump(mode="json", exclude={"revision"}, exclude_defaults=True),
        option=orjson.OPT_SORT_KEYS,
    )
    return hashlib.sha1(canonical, usedforsecurity=False).hexdigest()
