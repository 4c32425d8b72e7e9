"""Run `vllm serve` on 127.0.0.1 while a script runs."""

import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from perf.measuring import log_file
from regrade.engines.vllm_process.process import EngineProcess
from regrade.hub.http_client import NoResponseError, send

NAME = "demo"
"""Name of the served model."""


def free_port() -> int:
    """Find an unused port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def vllm_server(model: str, options: Sequence[str]) -> Iterator[str]:
    """Serve a model under the name `demo`, and yield the server's URL without `/v1`."""
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", NAME, *options]
    log = log_file("server")
    server = EngineProcess(command, log)  # supervised: ends with this process
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 600
        while not is_up(f"{address}/health"):
            if time.monotonic() > deadline or server.channel.has_message():
                sys.exit(f"vLLM did not start within 600 s; its log: {log}")
            time.sleep(0.5)
        yield address
    finally:
        server.end()


def is_up(url: str) -> bool:
    """Check that a GET of the URL succeeds."""
    try:
        return send(url, seconds=5).status < 400
    except NoResponseError:
        return False
