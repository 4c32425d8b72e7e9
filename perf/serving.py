"""A `vllm serve` of our own on 127.0.0.1, for as long as a script runs."""

import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from perf.measuring import RESULTS
from regrade.engines.vllm_process.process import EngineProcess

NAME = "demo"


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def vllm_server(model: str, options: Sequence[str]) -> Iterator[str]:
    """Serve a model under the name `demo`, and yield the address without `/v1`."""
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", NAME, *options]
    log = RESULTS / "logs" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    server = EngineProcess(command, log)  # supervised: nothing of it outlives this process
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 600
        while not answers(f"{address}/health"):
            if time.monotonic() > deadline or server.channel.has_message():
                sys.exit(f"vLLM did not start: {log}")
            time.sleep(0.5)
        yield address
    finally:
        server.end()


def answers(url: str) -> bool:
    """Return whether something answers well at an address."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
