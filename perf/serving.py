"""Run `vllm serve` on 127.0.0.1 while a script runs."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from perf.measuring import log_file
from regrade.engines.vllm_process.process import EngineProcess
from regrade.hub.http_client import NoResponseError, send
from regrade.processes.supervised import free_port

NAME = "demo"
"""Name of the served model."""


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
        wait_until_up(f"{address}/health", server.channel.has_message, f"vLLM; its log: {log}")
        yield address
    finally:
        server.end()


def wait_until_up(url: str, has_ended: Callable[[], bool], server: str) -> None:
    """Wait until a GET of the URL succeeds; exit if the server ends, or is not up after ten minutes."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and not has_ended():
        with suppress(NoResponseError):
            if send(url, seconds=5).status < 400:
                return
        time.sleep(0.3)
    sys.exit(f"not started: {server}")
