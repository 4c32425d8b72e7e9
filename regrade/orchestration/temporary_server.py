"""A temporary Prefect server for one command, if PREFECT_API_URL is not set.

Prefect would start one by itself, but only once the flow begins, and would import the whole server here as well. This
one starts before anything slow is imported.
"""

import os
import socket
import sys
import time
from pathlib import Path

from regrade.errors import OperationError
from regrade.processes.supervised import SupervisedProcess

SERVER = "prefect.server.api.server:create_app"
STARTUP_SECONDS = 180
"""Longest start, in seconds; the first one, which makes the database, takes 18 s on two cores."""
GRACE = 3.0
"""Seconds that the server gets from SIGTERM to SIGKILL."""
EPHEMERAL = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
"""Prefect's settings for an ephemeral server: no UI, no background services."""


class TemporaryServerError(OperationError):
    """Prefect's temporary server did not start."""

    def __init__(self, problem: str, log: Path) -> None:
        self.problem, self.log = problem, log
        super().__init__(problem, log)

    def __str__(self) -> str:
        return (
            f"Prefect's temporary server {self.problem}; what it said is in {self.log}. Start one by hand "
            "(`prefect server start`) and set PREFECT_API_URL to its address."
        )


class TemporaryServer:
    """A Prefect server on a free port of 127.0.0.1. It ends with this process: Prefect still needs it at its exit."""

    def __init__(self, log: Path) -> None:
        """Start the server without waiting for it.

        Args:
            log: Takes the server's output, after its present content.
        """
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        command = [sys.executable, "-m", "uvicorn", "--factory", SERVER, "--host", "127.0.0.1"]
        command += ["--port", str(port), "--log-level", "error", "--lifespan", "on"]
        self.api_url = f"http://127.0.0.1:{port}/api"
        self._log = log
        self._process = SupervisedProcess(command, log, os.environ | EPHEMERAL, grace=GRACE)

    def wait(self) -> None:
        """Wait until the server answers.

        Raises:
            TemporaryServerError: If it ended, or does not answer in time.
        """
        import httpx  # noqa: PLC0415 - the server starts before anything slow is imported

        deadline = time.monotonic() + STARTUP_SECONDS
        with httpx.Client() as client:
            while time.monotonic() < deadline:
                if self._process.has_ended():
                    raise TemporaryServerError("ended at its start", self._log)
                try:
                    if client.get(f"{self.api_url}/health").is_success:
                        return
                except httpx.TransportError:
                    time.sleep(0.05)
        raise TemporaryServerError(f"did not answer in {STARTUP_SECONDS} s", self._log)
