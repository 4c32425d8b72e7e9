"""Interface of answer repositories, on the Hub and in a folder."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file at one revision."""

    path: str
    size: int
    sha256: str | None
    """None if the store keeps no sha256 of it (small text files on the Hub)."""
    git_oid: str | None = None
    """sha1 of the content as a git blob; None if the store keeps a sha256 instead."""


class Listing:
    """All files at a revision."""

    def __init__(self, files: Iterable[StoredFile]) -> None:
        self.files = {file.path: file for file in sorted(files, key=lambda file: file.path)}
        self._paths = list(self.files)
        self._last: tuple[str, Mapping[str, StoredFile]] = "", MappingProxyType(self.files)

    def under(self, folder: str) -> Mapping[str, StoredFile]:
        """Return the files in a folder by path, sorted; all files if `folder` is empty.

        The last folder is remembered: the shards of an answer set are looked up one by one.
        """
        last = self._last  # other threads may replace it
        if last[0] != folder:
            self._last = last = folder, MappingProxyType(self._found(folder))
        return last[1]

    def _found(self, folder: str) -> dict[str, StoredFile]:
        if not folder:
            return self.files
        start = bisect_left(self._paths, folder + "/")
        end = bisect_left(self._paths, folder + "0")  # "0" follows "/"
        return {path: self.files[path] for path in self._paths[start:end]}

    def updated(self, changed: Mapping[str, StoredFile], removed: Collection[str]) -> "Listing":
        """Return the listing of a commit that wrote `changed` and removed files on top of this revision."""
        files = {**self.files, **changed}
        return Listing(file for path, file in files.items() if path not in removed)


class Repository(Protocol):
    """A versioned set of files: every commit is atomic and stays readable under its revision (40 hex digits)."""

    @property
    def uri(self) -> str:
        """`hf://datasets/ORG/NAME`, or the absolute path of a folder."""

    def head(self) -> str | None:
        """Return the newest revision, or None before the first commit."""

    def resolve(self, revision: str) -> str:
        """Return the 40-digit revision that a branch, tag or (shortened) commit names.

        Raises:
            RepositoryError: If the revision does not exist.
        """

    def files(self, revision: str, prefix: str = "") -> Mapping[str, StoredFile]:
        """Return the files in folder `prefix` at a revision, by path."""

    def fetch(self, path: str, revision: str) -> Path:
        """Return a local file with the content of `path` at a revision, after checking its sha256 (if known).

        Raises:
            RepositoryError: If the file does not exist at that revision.
            DamagedAnswersError: If the content differs from the committed content.
        """

    def holds(self, file: StoredFile) -> bool:
        """Return False if a shard that a revision lists is not kept, or with another size; nothing is read."""

    def commit(
        self,
        additions: Mapping[str, Path | bytes],
        message: str,
        *,
        parent: str | None,
        removed: Collection[str] = (),
    ) -> str:
        """Write and remove files in one atomic commit and return its revision.

        Args:
            additions: Path in the repository to local file or content.
            message: Summary of the commit.
            parent: The head from which `additions` were derived.
            removed: Paths to remove; they stay readable at older revisions.

        Raises:
            HeadMovedError: If another commit followed `parent`; read the head and derive `additions` again.
            HubError: If the store failed, after all retries.
            RepositoryError: If writing is not allowed (missing or rejected token, read-only folder).
        """

    def url(self, revision: str, path: str = "") -> str | None:
        """Return the web page of a file or folder at a revision; None for a local folder."""


def file_at(repository: Repository, path: str, revision: str) -> StoredFile | None:
    """Return the file at a path, as a revision lists it; None if it lists none."""
    return repository.files(revision, path.rpartition("/")[0]).get(path)
