"""The process of a worker of `limited`: `python -m regrade.processes.limited_child MODULE:NAME SOCKET OPTIONS`.

It imports the function, warms it up, and forks a process that computes; if that is killed, it forks the next one. Both
use the same socket: the fork answers, and the supervisor reports the death of a fork instead of the answer.
"""

import importlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import orjson

from regrade.processes.supervisor import end_with_parent

_WATCH = 0.05
"""Seconds between two checks of the memory of the process that computes."""
_ADDRESS_SPACE = 4
"""Address space of a process, as a multiple of the memory that it may use; the kernel enforces this limit."""
_KILLED: dict[int, str] = {signal.SIGPROF: "cpu", signal.SIGALRM: "time"}
_PAGE = resource.getpagesize()


def main(arguments: Sequence[str]) -> int:
    """Serve until the owner closes the socket.

    Args:
        arguments: `module:name` of the function; descriptor of the socket; `Limits` and `warm_up` as JSON.
    """
    name, descriptor, text = arguments
    connection, options = Connection(int(descriptor)), orjson.loads(text)
    module, _, attribute = name.partition(":")
    try:
        function: Callable[[Any], Any] = getattr(importlib.import_module(module), attribute)
        for value in options["warm_up"]:
            function(value)
    except Exception:  # noqa: BLE001 - reported to the owner
        connection.send_bytes(orjson.dumps({"error": traceback.format_exc()}))
        return 1
    try:
        connection.send_bytes(orjson.dumps({"ready": True}))
    except BrokenPipeError:  # the owner was killed meanwhile
        return 0
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            _compute_all(connection, function, options, supervisor)
        limit = _watch(pid, options["memory"])
        if limit is None:
            return 0
        try:
            connection.send_bytes(orjson.dumps({"limit": limit}))
        except BrokenPipeError:
            return 0


def _watch(pid: int, memory: int) -> str | None:
    """Wait for the end of a process, kill it if it uses too much memory, and return the limit; None if it ended by itself."""
    too_large = False
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if not too_large and _resident(pid) > memory:
            os.kill(pid, signal.SIGKILL)
            too_large = True
        signal.sigtimedwait([signal.SIGCHLD], _WATCH)
    if too_large:
        return "memory"
    if os.WIFSIGNALED(ended[1]):
        return _KILLED.get(os.WTERMSIG(ended[1]), "crash")
    return None if os.WEXITSTATUS(ended[1]) == 0 else "crash"


def _resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended, or this system has no `/proc`."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _compute_all(
    connection: Connection, function: Callable[[Any], Any], options: dict[str, Any], supervisor: int
) -> NoReturn:
    end_with_parent(supervisor)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    space = int(options["memory"]) * _ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            value = orjson.loads(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        _limit_time(options["cpu_seconds"], options["seconds"])
        try:
            answer = {"result": function(value)}
        except MemoryError:
            answer = {"limit": "memory"}
        except Exception:  # noqa: BLE001 - reported to the owner
            answer = {"error": traceback.format_exc()}
        _limit_time(0, 0)
        connection.send_bytes(orjson.dumps(answer))


def _limit_time(cpu_seconds: float, seconds: float) -> None:
    """Make the kernel end this process after these times; 0: never. Both signals keep their default action, the end."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
