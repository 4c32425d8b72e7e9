"""Child processes that compute one value at a time, each value within limits of CPU time, time and memory.

For computations on untrusted input that may not end, or may take all memory, such as algebra. A value beyond a limit is
`Stopped`; its process is killed and replaced, without effect on other values. The function is trusted: this is no
sandbox.

Each worker is a supervisor that has imported the function, and a fork of it that computes (`limited_child`). The kernel
counts the CPU time and the time, also of native code that does not let Python handle signals; the supervisor watches the
memory. A fork takes milliseconds, an import seconds. Threads of the owner do not matter, because nothing is forked from
it; if the owner ends, even by SIGKILL, its workers end as well.
"""

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, Self, TypeAlias

import orjson
import psutil
from pydantic import JsonValue

from regrade.processes.environment import CHILD_VARIABLES
from regrade.settings.errors import OperationError

_CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
Limit = Literal["cpu", "time", "memory", "crash"]
_QUEUED = 4
"""Tasks of `map` that wait for a worker, for each worker."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a single value."""

    cpu_seconds: float
    """CPU time, the limit that matters: unlike elapsed time, it depends little on other processes."""
    seconds: float
    """Elapsed time, for a computation that waits; several times `cpu_seconds`."""
    memory: int
    """Resident memory of the process, in bytes."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A value that was not computed: the process passed a limit, or crashed."""

    limit: Limit


Result: TypeAlias = JsonValue | Stopped


def available_cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def free_memory() -> int:
    """Return the bytes of memory that nobody uses, at most the limit of this process's container."""
    free = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # no control groups, or `max`
        free = min(free, int(_CONTAINER_MEMORY.read_text()))
    return free


class LimitedProcesses:
    """Worker processes for a function. Use as a context manager; its end kills running computations."""

    def __init__(
        self, function: str, limits: Limits, *, processes: int, warm_up: Sequence[object] = ()
    ) -> None:
        """Start the workers.

        Args:
            function: `module:name` of a function from a JSON value to a JSON value.
            limits: Limits of each value.
            processes: Number of workers.
            warm_up: Values computed once by each worker, without limits, so that its processes start with the imports
                and caches.

        Raises:
            OperationError: If the function cannot be imported.
        """
        self._workers: SimpleQueue[_Worker] = SimpleQueue()
        self._started: list[_Worker] = []
        try:
            for _ in range(processes):
                self._started.append(_Worker(function, limits, warm_up))
            for worker in self._started:  # they import at the same time
                worker.wait_until_ready()
                self._workers.put(worker)
        except BaseException:
            self._end()
            raise
        self._threads = ThreadPoolExecutor(processes, "limited")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._end()
        self._threads.shutdown()

    def compute(self, value: object) -> Result:
        """Return the function's result for a value, or `Stopped`. Blocks while all workers are busy.

        Raises:
            OperationError: If the function raised an error.
        """
        worker = self._workers.get()
        try:
            return worker.compute(value)
        finally:
            self._workers.put(worker)

    def map(self, values: Iterable[object]) -> Iterator[Result]:
        """Yield the result of each value, or `Stopped`, in the order of the values.

        Args:
            values: JSON values; few more are read than results are yielded.

        Raises:
            OperationError: If the function raised an error.
        """
        pending: deque[Future[Result]] = deque()
        for value in values:
            pending.append(self._threads.submit(self.compute, value))
            if len(pending) > _QUEUED * len(self._started):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def _end(self) -> None:
        for worker in self._started:
            worker.end()


class _Worker:
    """A supervisor process and the socket to the process that computes."""

    def __init__(self, function: str, limits: Limits, warm_up: Sequence[object]) -> None:
        self._function = function
        ours, theirs = socket.socketpair()
        with theirs:
            options = orjson.dumps({**asdict(limits), "warm_up": list(warm_up)}).decode()
            command = (sys.executable, "-m", "regrade.processes.limited_child")
            # The child neither needs nor gets credentials. It imports what this process can import.
            environment = {name: os.environ[name] for name in CHILD_VARIABLES if name in os.environ}
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
            self._process = subprocess.Popen(
                [*command, function, str(theirs.fileno()), options],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C reaches only the owner; of its session, whose priority counts
            )
        self._connection = Connection(ours.detach())

    def wait_until_ready(self) -> None:
        """Wait until the function is imported."""
        self._receive()

    def compute(self, value: object) -> Result:
        """Return the function's result, or `Stopped`."""
        try:
            self._connection.send_bytes(orjson.dumps(value))
        except OSError:
            raise self._ended() from None
        message = self._receive()
        if "limit" in message:
            return Stopped(message["limit"])
        result: JsonValue = message["result"]
        return result

    def end(self) -> None:
        """Kill the supervisor, and with it its forks."""
        self._process.kill()
        self._process.wait()
        self._connection.close()  # once a thread that waits for an answer has noticed the end

    def _receive(self) -> dict[str, Any]:
        try:
            message: dict[str, Any] = orjson.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._ended() from None
        if "error" in message:
            raise OperationError(f"'{self._function}' failed: {message['error']}")
        return message

    def _ended(self) -> OperationError:
        return OperationError(
            f"A process that computes '{self._function}' ended with status {self._process.poll()}."
        )
