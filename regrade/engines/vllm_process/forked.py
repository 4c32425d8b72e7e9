"""Worker side: forks of a process that has imported vLLM, which takes seconds: to compute a value, and as vLLM's engine core."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import orjson

SECONDS = 300.0
"""Time limit of a computation."""


class ForkFailedError(Exception):
    """The computation raised an error, took too long, or its process crashed; see the text."""


def in_fork(compute: Callable[[], Any], *, seconds: float = SECONDS) -> Any:  # noqa: ANN401 - any JSON value
    """Return the result of `compute`, a JSON value, computed in a fork.

    vLLM's classes keep state of the process: parallel groups, caches, and on a GPU a context with its memory. A fork shares
    the imported modules and takes all changes with it.

    Raises:
        ForkFailedError: If there is no result.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _compute(compute, writer)
    os.close(writer)
    in_time = False
    try:
        answer = _read(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
        in_time = _ended(pid)
        if not in_time:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if not answer:
        raise ForkFailedError(
            "the process crashed" if in_time else f"no result within {seconds:.0f} s"
        )
    message = orjson.loads(answer)
    if "error" in message:
        raise ForkFailedError(message["error"])
    return message["result"]


def message_of(error: Exception) -> str:
    """Return the text of an error in one line, or its type if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def _compute(compute: Callable[[], Any], writer: int) -> None:
    status = 1
    try:
        try:
            answer = {"result": compute()}
        except Exception as error:  # noqa: BLE001 - vLLM raises any kind; reported to the parent
            answer = {"error": message_of(error)}
        data = orjson.dumps(answer)
        while data:
            data = data[os.write(writer, data) :]
        status = 0
    finally:
        # This does not flush buffers: another thread may have held their lock at the fork.
        os._exit(status)


def _read(reader: int, deadline: float) -> bytes:
    """Return the output of the fork; b"" if it did not end before the deadline."""
    answer = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if not wait([reader], left):  # also above 1,023, unlike `select.select`
            continue
        part = os.read(reader, 1 << 16)
        if not part:
            return bytes(answer)
        answer += part
    return b""


def _ended(pid: int) -> bool:
    """Return True if the fork has ended, or does within a second."""
    deadline = time.monotonic() + 1.0
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


# vLLM's engine core as a fork. Its parent has threads, of which a fork would inherit the locks. Python's fork server has none.
#
# Only on a CPU, where the core computes nothing: its workers, whose OpenMP is set up by the environment, are new processes.


def import_for_core() -> None:
    """Start a process of which the engine core will be a fork; it imports vLLM while this process does. Lower the priority before."""
    multiprocessing.set_forkserver_preload(["regrade.engines.vllm_process.internals"])
    forkserver.ensure_running()


class CoreContext:
    """Python's `multiprocessing` as vLLM uses it to start an engine core: in a fork, with the environment of this process."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")

    def Process(self, *, target: Callable[..., object], **options: Any) -> BaseProcess:  # noqa: N802, ANN401 - Python's names
        """Return a process that calls `target`."""
        return self._context.Process(target=_call, args=(_Environment(), target), **options)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return getattr(self._context, name)


class _Environment:
    """The environment of this process at its pickling, which is when vLLM starts the core: vLLM may set variables just before."""

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (dict(os.environ),)


def _call(variables: dict[str, str], target: Callable[..., object], **arguments: object) -> None:
    os.environ.clear()
    os.environ.update(variables)
    target(**arguments)
