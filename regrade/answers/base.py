"""What an answer repository can do, whether it lies on the Hub or in a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file at one revision."""

    path: str
    size: int
    sha256: str | None
    """None where the store keeps no sha256 for it (small text files on the Hub)."""


class Repository(Protocol):
    """A versioned set of files: every commit is atomic and stays readable under its revision (40 hex digits)."""

    @property
    def uri(self) -> str:
        """`hf://datasets/ORG/NAME`, or the absolute path of a folder."""

    def head(self) -> str | None:
        """Return the newest revision, or None where nothing was ever committed (or no repository exists yet)."""

    def resolve(self, revision: str) -> str:
        """Return the 40-digit revision that a branch, tag or (shortened) commit names.

        Raises:
            RepositoryError: If there is no such revision.
        """

    def files(self, revision: str, prefix: str = "") -> dict[str, StoredFile]:
        """Return the files at a revision whose path starts with a folder `prefix`, by path."""

    def fetch(self, path: str, revision: str) -> Path:
        """Return a local file with the content of `path` at a revision; where a sha256 is known, it is checked.

        Raises:
            RepositoryError: If there is no such file at that revision.
            DamagedAnswersError: If the content is not what was committed.
        """

    def commit(
        self, additions: Mapping[str, Path | bytes], message: str, *, parent: str | None
    ) -> str:
        """Write files in one atomic commit and return its revision.

        Args:
            additions: Path in the repository to local file or content.
            message: Summary of the commit.
            parent: The head that `additions` were derived from.

        Raises:
            HeadMovedError: If someone else committed since `parent`: read the head and derive again.
            HubError: If the store failed, after retrying what could be retried.
            RepositoryError: If writing is not allowed (missing or refused token, read-only folder).
        """

    def url(self, revision: str, path: str = "") -> str | None:
        """Return a link for people to a file or folder at a revision; None for a local folder."""
