"""Work for a process beside this one: MLflow and matplotlib take seconds to import, which another core can spend.

`python -m regrade.tracking.process FD`: calls what arrives through the pipe until the other end is closed, which the kernel does
however the owner ends. Only our own processes are at the ends of the pipe, so what passes is pickled.
"""

import atexit
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from regrade.errors import OperationError
from regrade.tracking.connection import preload

_P = ParamSpec("_P")
_R = TypeVar("_R")


class BesideError(OperationError):
    """The process beside this one was ended from outside."""

    def __str__(self) -> str:
        return "The process that writes to MLflow and draws was ended from outside, perhaps for lack of memory."


@dataclass
class _Started:
    process: "subprocess.Popen[bytes]"
    connection: "Connection[Any, Any]"
    unanswered: int = 0
    """Calls whose answers nobody waits for."""

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
"""The one in use, if any."""
_one_caller = threading.RLock()


def prepare(log: Path | None = None) -> None:
    """Start the process, which begins with its imports. Where it has been started, nothing happens.

    Args:
        log: Takes what is printed there. None: our own stderr.
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
                start_new_session=True,  # Ctrl-C is for us
            )
        child_connection.close()
        _started.append(_Started(process, connection))
        _started[0].send((_import_all, (), {}))


def end() -> None:
    """End the process, if there is one. It ends by itself when this one does."""
    with _one_caller:
        while _started:
            started = _started.pop()
            started.connection.close()
            started.process.kill()
            started.process.wait()


atexit.register(end)


def call_beside(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function of a module in that process, one at a time, and return what it returns.

    Raises:
        BesideError: If the process was ended from outside.
        Exception: What the function raises.
    """
    with _one_caller:
        prepare()
        try:
            _started[0].send((function, args, kwargs))
            value, error = _started[0].receive()
        except (EOFError, BrokenPipeError, ConnectionResetError) as gone:
            end()
            raise BesideError from gone
    if error is not None:
        raise error
    return cast("_R", value)


def _import_all() -> None:
    preload()
    import matplotlib.figure  # noqa: F401


def _serve(connection: "Connection[Any, Any]") -> None:
    while True:
        try:
            function, args, kwargs = connection.recv()
        except EOFError:
            return
        value, raised = None, None
        try:
            value = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised where the call came from
            raised = error
        connection.send((value, raised))


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
