"""A real Prefect server, shared by all tests of a session."""

import io
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from regrade.orchestration.server import protection, server_command
from tests.prefect_login import LOGIN, Login
from tests.server_process import free_port, server_process

if TYPE_CHECKING:  # what hands out tests to lanes runs none
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State


@contextmanager
def running_server(home: Path) -> "Iterator[tuple[str, subprocess.Popen[bytes]]]":
    """API address and process of a Prefect server on SQLite, with a login; the process leads a new process group."""
    port = free_port()
    # The UI calls the API at this address; without it at port 4200, even with another `--port`.
    address = f"http://127.0.0.1:{port}/api"
    environment = {
        **os.environ,
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_UI_API_URL": address,
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        **protection(port, LOGIN),
    }
    environment.pop("PREFECT_API_URL", None)
    command, log = server_command("127.0.0.1", port), home / "server.log"
    with server_process(command, f"{address}/health", log, environment=environment) as process:
        yield address, process


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """API address of a Prefect server."""
    from prefect.logging.handlers import APILogWorker

    with running_server(tmp_path_factory.mktemp("prefect-server")) as (url, _):
        yield url
        APILogWorker.drain_all(timeout=5)  # what waits is sent while there is a server


@pytest.fixture
def flows_on_server(prefect_server: str) -> Iterator[str]:
    """API address of the session's server, on which the flows run that the test calls."""
    from prefect.logging.handlers import APILogHandler
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: prefect_server}):
        yield prefect_server
        APILogHandler().flush()  # while the address is still set


@pytest.fixture
def prefect_client(flows_on_server: str) -> "Iterator[SyncPrefectClient]":
    """Client of the session's server; flows of the test run there, too."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def client(prefect_client: "SyncPrefectClient", prefect_api: str) -> "SyncPrefectClient":
    """The same client, and regrade's deployments on the server."""
    from regrade.cli.deploy import deploy

    with redirect_stdout(io.StringIO()):
        deploy(force=False)
    return prefect_client


def state_of(client: "SyncPrefectClient", run: "FlowRun") -> "State":
    state = client.read_flow_run(run.id).state
    assert state is not None
    return state


@pytest.fixture
def prefect_api(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """API address of the session's server, also set in the environment as PREFECT_API_URL."""
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    return prefect_server


def latest_page(server: str, key: str) -> str:
    """Markdown of the newest artifact with a key."""
    asked = {"artifacts": {"key": {"any_": [key]}}, "sort": "CREATED_DESC", "limit": 1}
    found = httpx.post(f"{server}/artifacts/filter", json=asked, auth=Login()).json()
    return str(found[0]["data"])
