"""Run MLflow and matplotlib in a second process, because importing them takes seconds (docs/decisions/0006-mlflow-process.md).

`python -m regrade.tracking.process FD` executes the calls that arrive through a pipe, and ends when the pipe is closed;
the kernel closes it whenever the owner ends. Calls and results are pickled: only regrade's processes use the pipe.
"""

import atexit
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from regrade.processes.importing import quick_imports
from regrade.settings.errors import TrackingError
from regrade.tracking.connection import preload

_P = ParamSpec("_P")
_R = TypeVar("_R")


_KILLED = "The process for MLflow and charts was killed from outside, perhaps for lack of memory. Try again."


class TrackingProcessError(TrackingError):
    """The tracking process was killed from outside, whatever it was asked for."""

    def __str__(self) -> str:
        return self.problem


@dataclass
class _Started:
    process: "subprocess.Popen[bytes]"
    connection: "Connection[Any, Any]"
    unanswered: int = 0
    """Calls sent and not answered yet."""

    def send(self, call: tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]) -> None:
        self.connection.send(call)
        self.unanswered += 1

    def receive(self) -> tuple[object, Exception | None]:
        """Return the answer to the last call."""
        while True:
            answer = self.connection.recv()
            self.unanswered -= 1
            if not self.unanswered:
                return cast("tuple[object, Exception | None]", answer)


_started: list[_Started] = []
"""The running process; empty before the first call."""
_one_caller = threading.RLock()


def prepare(log: Path | None = None) -> None:
    """Start the process and its imports, unless it runs already. Does not wait.

    Args:
        log: File for the output of the process. None: stderr of this process.
    """
    with _one_caller:
        if _started:
            return
        connection, child_connection = Pipe()
        command = [sys.executable, "-m", "regrade.tracking.process", str(child_connection.fileno())]
        with nullcontext(sys.stderr) if log is None else log.open("ab") as output:
            process = subprocess.Popen(
                command,
                pass_fds=(child_connection.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C ends only the owner
            )
        child_connection.close()
        _started.append(_Started(process, connection))
        _started[0].send((_import_all, (), {}))


def call_later(function: Callable[[], None]) -> None:
    """Let the process prepare for later calls, if it runs. Does not wait; its errors are those of the later calls."""
    with _one_caller, suppress(BrokenPipeError):
        for started in _started:
            started.send((function, (), {}))


def end() -> None:
    """End the process, if it runs. It also ends when its owner does."""
    with _one_caller:
        while _started:
            started = _started.pop()
            started.connection.close()
            started.process.kill()
            started.process.wait()


atexit.register(end)


def call_in_process(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a module-level function in the process and return its result; one call at a time.

    Raises:
        TrackingProcessError: If the process was killed from outside.
        Exception: Any exception of the function.
    """
    with _one_caller:
        prepare()
        try:
            _started[0].send((function, args, kwargs))
            value, raised = _started[0].receive()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            end()
            raise TrackingProcessError("", _KILLED) from error
    if raised is not None:
        raise raised
    return cast("_R", value)


def _import_all() -> None:
    with quick_imports():
        preload()


def _serve(connection: "Connection[Any, Any]") -> None:
    while True:
        try:
            function, args, kwargs = connection.recv()
        except EOFError:
            return
        value, raised = None, None
        try:
            value = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised in the calling process
            raised = error
        connection.send((value, raised))


def _end_with_owner(pipe: int) -> None:
    """End once the owner has ended, also in the middle of imports, which take seconds."""
    closed = select.poll()
    closed.register(pipe, 0)  # reports only that the other side is closed
    closed.poll()
    os._exit(0)


if __name__ == "__main__":
    _pipe = int(sys.argv[1])
    threading.Thread(target=_end_with_owner, args=(_pipe,), name="owner", daemon=True).start()
    _serve(Connection(_pipe))
