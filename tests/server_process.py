"""Real servers in processes of their own, on free ports of 127.0.0.1."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from regrade.hub.http_client import NoResponseError, send

START_SECONDS = 240
"""Longest wait for a server's start."""


def free_port() -> int:
    """Find an unused port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server_process(
    command: Sequence[str],
    health: str,
    log: Path,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a server, and yield its process once it is healthy; the process leads a new process group.

    Args:
        command: The server's command.
        health: Address that answers with a success once the server is ready.
        log: File for its output.
        folder: Working folder. None: that of this process.
        environment: All variables. None: those of this process.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_healthy(health, lambda: process.poll() is not None, log)
        yield process
    finally:
        # The process group has only the server and its workers, because it was started in a new session.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until_healthy(health: str, has_ended: Callable[[], bool], log: Path) -> None:
    """Wait until an address answers with a success; fail with the log if the server ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and not has_ended():
        try:
            if send(health, seconds=5).status < 400:
                return
        except NoResponseError:
            pass
        time.sleep(0.2)
    pytest.fail(f"the server of {health} did not start:\n{log.read_text()[-4000:]}")
