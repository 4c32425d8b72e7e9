"""Answer repositories of both kinds, for tests of what holds for both."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regrade.answers.base import Repository
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.hub.retries import RetryPolicy
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
