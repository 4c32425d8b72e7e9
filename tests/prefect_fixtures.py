"""A real Prefect server, shared by all tests of a session."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from regrade.orchestration.prefect_app import protection, server_command
from tests.prefect_login import LOGIN


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


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
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            server_command("127.0.0.1", port),
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(f"{address}/health", process, log)
        yield address, process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """API address of a Prefect server."""
    with running_server(tmp_path_factory.mktemp("prefect-server")) as (url, _):
        yield url


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(
                f"the Prefect server ended with {process.returncode}: {log.read_text()}"
            )
        try:
            if httpx.get(url, timeout=2).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.3)
    raise RuntimeError(f"the Prefect server did not answer in 120 s: {log.read_text()}")


@pytest.fixture
def prefect_api(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """API address of the session's server, also set in the environment as PREFECT_API_URL."""
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    return prefect_server
