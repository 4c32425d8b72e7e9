"""Fixtures of the test Hub; tests/conftest.py loads them as a plugin."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.hub_server.faults import Action
from tests.hub_server.server import HubServer
from tests.hub_server.store import Repo, Store

_numbers = itertools.count()


@dataclass(frozen=True)
class Hub:
    """The test Hub for one test: a new user, and no state from other tests."""

    server: HubServer
    user: str
    token: str
    read_token: str

    @property
    def endpoint(self) -> str:
        return self.server.endpoint

    @property
    def store(self) -> Store:
        return self.server.store

    @property
    def repo_id(self) -> str:
        """Name of a dataset repository that does not exist yet."""
        return f"{self.user}/answers"

    def repo(self) -> Repo:
        """The server's repository `repo_id`."""
        return self.store.repos["datasets", self.repo_id]

    def fail(
        self, method: str, path: str, action: Action, *, count: int = 1, after: int = 0
    ) -> None:
        self.server.fail(method, path, action, count=count, after=after)

    def requests(self, method: str, path: str) -> int:
        return self.server.requests(method, path)


@pytest.fixture(scope="session")
def hub_server() -> Iterator[HubServer]:
    server = HubServer()
    server.start()
    yield server
    server.stop()


# huggingface_hub 2.4 sends uploads in a way that is deprecated in httpx2.
UPLOAD_WARNING = "ignore:Use 'content=<...>' to upload raw bytes/text content:DeprecationWarning"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", UPLOAD_WARNING)


@pytest.fixture
def hub(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A new namespace, without the tokens of this machine: a test that needs a token passes it."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", os.devnull)
    user = hub_server.store.add_user(f"user{next(_numbers)}")
    yield Hub(hub_server, user.name, user.write_token, user.read_token)
    hub_server.forget()
