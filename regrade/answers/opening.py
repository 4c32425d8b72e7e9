"""Open an answer repository by its address."""

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from regrade.answers.base import Repository
from regrade.answers.local import LocalRepository
from regrade.answers.spool import interrupted
from regrade.settings.errors import RepositoryError
from regrade.settings.files import path_of

if TYPE_CHECKING:
    from regrade.answers.hub import HubRepository

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")
_DATASET = re.compile(r"hf://datasets/([\w-][\w.-]*/[\w-][\w.-]*)/?", re.ASCII)
_NO_DATASET = "there is no such dataset on the Hub. Check the name, or generate answers into it."
_EMPTY = "the address is empty. Name a folder or `hf://datasets/ORG/NAME`."
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def open_repository(uri: str, *, create: bool, empty: bool = False) -> Repository:
    """Return the answer repository at an address, after checking that it can be used.

    Args:
        uri: `hf://datasets/ORG/NAME`, or a folder as a path or `file://` address.
        create: Open for writing. It need not exist (on the Hub it is created), and missing write access is reported
            now instead of after hours of generating.
        empty: Accept a repository that does not exist or holds no answers yet, without creating it.

    Raises:
        RepositoryError: If the address is not valid, it has no repository (without `create`), it has other
            files, or access is missing.
        HubError: If the Hub does not answer.
    """
    on_hub = uri.startswith("hf://")
    repository = _on_hub(uri) if on_hub else LocalRepository(_folder(uri))
    if create:
        repository.check_writable()
    elif repository.head() is None and not empty:
        problem = _NO_DATASET if on_hub else _nothing_in(uri)
        raise RepositoryError(repository.uri, problem)
    return repository


def newest_revision(repository: Repository) -> str:
    """Return the newest revision of a repository with answers.

    Raises:
        RepositoryError: If it holds no answers yet.
    """
    revision = repository.head()
    if revision is None:
        raise RepositoryError(
            repository.uri, "it holds no answers yet. Generate some with `regrade generate`."
        )
    return revision


def _on_hub(uri: str) -> "HubRepository":
    match = _DATASET.fullmatch(uri)
    if match is None or ".." in uri or "--" in match[1]:
        raise RepositoryError(uri, "expected `hf://datasets/ORG/NAME`, a dataset on the Hub.")
    from regrade.answers.hub import HubRepository  # noqa: PLC0415 - slow import that folders do not need

    return HubRepository(match[1])


def _nothing_in(uri: str) -> str:
    """Return what is wrong with a folder without answers, and what to do."""
    folder, hint = _folder(uri), ""
    problem = "it has no answers yet" if folder.exists() else "there is no such folder"
    if _HUB_NAME.fullmatch(uri) and uri[0] != ".":
        hint = f" For the Hub write `hf://datasets/{uri}`."
    if waiting := interrupted(LocalRepository(folder).uri):
        hint += (
            f" Answers of an interrupted run wait on this machine ({', '.join(waiting)}): the same command goes on with them, "
            "`regrade publish` publishes them."
        )
    if points := sorted(folder.glob("sweeps/*/*/answers")):
        hint += (
            f" It has points of sweeps, each a repository of its own, such as '{points[0].parent}'."
        )
    return f"{problem}. Check the path, or put answers into it with `regrade evaluate` or `regrade import`.{hint}"


def _folder(uri: str) -> Path:
    if uri.startswith("file://"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise RepositoryError(
                uri, "a `file://` address has three slashes: `file:///path/to/folder`."
            )
        if not parts.path:
            raise RepositoryError(uri, _EMPTY)
    elif _SCHEME.match(uri):
        raise RepositoryError(
            uri, "expected a folder, or `hf://datasets/ORG/NAME` for a dataset on the Hub."
        )
    if not uri:
        raise RepositoryError(uri, _EMPTY)
    return path_of(uri)
