"""Publish answers that an earlier run left in a spool, without an engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regrade.answers.opening import open_repository
from regrade.answers.origin import read_origin
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import (
    ORIGIN,
    Spool,
    SpoolBusyError,
    SpoolError,
    is_from_this_machine,
    spool_root,
)
from regrade.errors import RegradeError


@dataclass(frozen=True, slots=True)
class Leftover:
    """Result of publishing one spool."""

    folder: Path
    repository: str | None
    published: AnswerSet | None
    error: RegradeError | None
    """Reason why it could not be published; None if it was published or empty."""


def publish_leftovers(repository_uri: str | None = None) -> Iterator[Leftover]:
    """Publish all spools of this machine, one after the other.

    Args:
        repository_uri: Only spools of this repository (`Repository.uri`). None: all.

    Yields:
        The result of each spool. A spool that fails stays unchanged, and the others go on.
    """
    for path in sorted(spool_root().glob(f"*/*/{ORIGIN}")):
        yield from _publish(path.parent, repository_uri)


def publish_siblings(folder: Path) -> Iterator[Leftover]:
    """Publish the other spools of an answer set that runs of this machine left: those of other shares, or of none.

    Args:
        folder: Folder of the answer set's spool, which is left out. Spools of other machines on the same file system are
            left out too: a lock may not reach across machines.
    """
    answer_set_id = folder.name.partition(".")[0]
    for path in sorted(folder.parent.glob(f"{answer_set_id}*/{ORIGIN}")):
        if path.parent != folder and is_from_this_machine(path.parent):
            yield from _publish(path.parent, None)


def _publish(folder: Path, only: str | None) -> Iterator[Leftover]:
    try:
        with Spool(folder, only_publishes=True) as spool:
            origin = spool.origin()
            if origin is None or only not in (None, origin.get("repository")):
                return
            yield _publish_open(spool, origin.get("repository"))
    except (SpoolBusyError, SpoolError) as error:
        yield Leftover(folder, None, None, error)


def _publish_open(spool: Spool, uri: str | None) -> Leftover:
    try:
        origin = read_origin(spool)
        if origin is None:
            return Leftover(spool.folder, uri, None, None)
        repository = open_repository(origin.repository, create=True)
        published = publish_answers(repository, spool, origin.description)
    except RegradeError as error:
        return Leftover(spool.folder, uri, None, error)
    if published is not None and published.manifest.state == "complete":
        spool.remove()
    return Leftover(spool.folder, uri, published, None)
