"""Publish answers that an earlier run left in a spool, without an engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regrade.answers.manifest import Session
from regrade.answers.opening import open_repository
from regrade.answers.publishing import SetDescription, publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import ORIGIN, Spool, SpoolBusyError, SpoolError, spool_root
from regrade.errors import RegradeError


@dataclass(frozen=True, slots=True)
class Leftover:
    """Result of publishing one spool."""

    folder: Path
    repository: str | None
    published: AnswerSet | None
    error: RegradeError | None
    """Reason why it could not be published; None if it was published or empty."""


def origin_of(repository_uri: str, description: SetDescription, session: Session) -> dict[str, Any]:
    """Return the JSON that lets `regrade publish` publish a spool without its run."""
    return {
        "repository": repository_uri,
        "description": description.model_dump(mode="json"),
        "session": session.model_dump(mode="json"),
    }


def publish_leftovers(repository_uri: str | None = None) -> Iterator[Leftover]:
    """Publish all spools of this machine, one after the other.

    Args:
        repository_uri: Only spools of this repository (`Repository.uri`). None: all.

    Yields:
        The result of each spool. A spool that fails stays unchanged, and the others go on.
    """
    for path in sorted(spool_root().glob(f"*/*/{ORIGIN}")):
        yield from _publish(path.parent, repository_uri)


def _publish(folder: Path, only: str | None) -> Iterator[Leftover]:
    try:
        with Spool(folder) as spool:
            origin = spool.origin()
            if origin is None or only not in (None, origin.get("repository")):
                return
            yield _publish_open(spool, origin)
    except (SpoolBusyError, SpoolError) as error:
        yield Leftover(folder, None, None, error)


def _publish_open(spool: Spool, origin: dict[str, Any]) -> Leftover:
    uri = origin.get("repository")
    try:
        description = SetDescription.model_validate(origin["description"])
        session = Session.model_validate(origin["session"])
        repository = open_repository(origin["repository"], create=True)
        published = publish_answers(repository, spool, description, session)
    except (KeyError, ValidationError) as error:
        problem = (
            f"'{ORIGIN}' was written by another version of regrade ({' '.join(str(error).split())})"
        )
        return Leftover(spool.folder, uri, None, SpoolError(str(spool.folder), problem))
    except RegradeError as error:
        return Leftover(spool.folder, uri, None, error)
    if published is not None and published.manifest.state == "complete":
        spool.remove()
    return Leftover(spool.folder, uri, published, None)
