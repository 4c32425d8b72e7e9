"""Answer repositories of both kinds, for tests of what holds for both, and rows that a session adds."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.base import Repository
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.origin import SetDescription, begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.hub.retries import RetryPolicy
from tests.builders import session
from tests.hub_server.fixtures import Hub

QUICK = RetryPolicy(attempts=6, first_wait=0.02, longest_wait=0.1, total=5)
Opener = Callable[[], Repository]


@pytest.fixture(params=["folder", "hub"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """A function that opens the same repository again at each call, like another process."""
    if request.param == "folder":
        return lambda: LocalRepository(tmp_path / "answers")
    hub: Hub = request.getfixturevalue("hub")
    counter = iter(range(1000))
    return lambda: HubRepository(
        hub.repo_id,
        endpoint=hub.endpoint,
        token=hub.token,
        cache=tmp_path / f"cache{next(counter)}",
        retries=QUICK,
    )


def add(
    repository: Repository,
    spool: Spool | Path,
    described: SetDescription,
    rows: Sequence[dict[str, Any]],
    number: int = 0,
    **origin: Any,
) -> AnswerSet:
    """Publish rows that a session of a number generates into a spool; what `begin_session` notes may be added."""
    with Spool(spool) if isinstance(spool, Path) else nullcontext(spool) as opened:
        begin_session(opened, repository.uri, described, session(number), **origin)
        opened.append(rows)
        answers = publish_answers(repository, opened, described)
    assert answers is not None
    return answers
