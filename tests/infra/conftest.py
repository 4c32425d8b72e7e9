"""The stack for all tests with the marker `stack`, which run in the order of their files."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.stack.layout import Layout, layout
from tests.command_line import demo_parameters
from tests.hub_server.fixtures import Hub
from tests.hub_server.server import HubServer
from tests.infra.running_stack import Stack, stack_in, started
from tests.server_process import free_port

N = 40


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A stack in an empty folder, which nothing starts."""
    monkeypatch.setenv("REGRADE_STACK", str(tmp_path / "stack"))
    monkeypatch.setenv("REGRADE_VIEW_PORT", str(free_port()))
    found = layout()
    found.make()
    return found


@pytest.fixture(scope="session")
def demo() -> dict[str, Any]:
    """Parameters of `evaluate-model`, as in `make demo`."""
    return demo_parameters()


@pytest.fixture(scope="session")
def team(hub_server: HubServer) -> Hub:
    """The test Hub as the workers of the stack see it."""
    user = hub_server.store.add_user("team")
    return Hub(hub_server, user.name, user.write_token, user.read_token)


@pytest.fixture(scope="session")
def stack(team: Hub) -> Iterator[Stack]:
    # Not pytest's folder, which the user of Postgres cannot enter.
    home = Path(tempfile.mkdtemp(prefix="regrade-stack-"))
    home.chmod(0o711)
    hub = {"HF_ENDPOINT": team.endpoint, "HF_TOKEN": team.token}
    with started(stack_in(home, hub)) as running:
        yield running
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def evaluated(stack: Stack, demo: dict[str, Any]) -> dict[str, Any]:
    """Flow run of an evaluation that was started through the API."""
    return stack.completed(stack.start_run("evaluate-model", {**demo, "limit": N}))
