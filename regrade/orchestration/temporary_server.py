"""Prefect's server for one command, where no other is set.

Prefect would start one by itself, but only once the flow begins, and would import the whole server here as well. This
one starts before anything else is imported, and ends with this process however that ends.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from regrade.errors import OperationError
from regrade.processes.tether import SERVER

STARTUP_SECONDS = 180
"""The first start of all, which makes the database, takes 18 s on two cores."""
EPHEMERAL = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
"""What Prefect sets for a server of this kind: no pages and no services that outlast a run."""


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
    """A Prefect server that is starting, or has started."""

    def __init__(self, port: int, tether: "subprocess.Popen[bytes]", log: Path) -> None:
        self.api_url = f"http://127.0.0.1:{port}/api"
        self._tether = tether
        self._log = log

    def wait(self) -> None:
        """Wait until the server answers.

        Raises:
            TemporaryServerError: If it ended, or does not answer in time.
        """
        import httpx  # noqa: PLC0415 - the server starts before anything slow is imported

        deadline = time.monotonic() + STARTUP_SECONDS
        with httpx.Client() as client:
            while time.monotonic() < deadline:
                if self._tether.poll() is not None:
                    raise TemporaryServerError("ended at its start", self._log)
                try:
                    if client.get(f"{self.api_url}/health").is_success:
                        return
                except httpx.TransportError:
                    time.sleep(0.05)
        raise TemporaryServerError(f"did not answer in {STARTUP_SECONDS} s", self._log)


def start_temporary_server(log: Path) -> TemporaryServer:
    """Start a server on a free port of 127.0.0.1. It ends with this process: Prefect still needs it at its exit.

    Args:
        log: Takes what the server prints, after what is there already.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    reader, _ = os.pipe()  # the write end stays open, and here only, until this process ends
    command = [sys.executable, "-m", "regrade.processes.tether", str(reader), "--"]
    command += [sys.executable, "-m", "uvicorn", "--factory", SERVER, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--log-level", "error", "--lifespan", "on"]
    with log.open("ab") as output:
        tether = subprocess.Popen(
            command,
            env=os.environ | EPHEMERAL,
            pass_fds=(reader,),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for us: the server is needed until we have ended
        )
    os.close(reader)
    return TemporaryServer(port, tether, log)
