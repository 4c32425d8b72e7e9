"""A program in a sandbox whose functions are called: its answers are handed on to the sandbox of the tests."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from regrade.processes.sandbox.box import START_SECONDS, Box, OutOfTimeError
from regrade.processes.sandbox.inside.frames import ClosedError
from regrade.processes.sandbox.sandbox import Sandbox

Verdict = Literal["passed", "failed", "timeout"]
"""`timeout`: the program used more time than a test has."""
_LOOK_SECONDS = 0.25
"""Time after which the kernel is asked for the CPU time of a call, again and again."""


class CalledProgram:
    """A program whose functions are called; its sandbox starts with the first call."""

    def __init__(
        self, sandbox: Sandbox, sources: Sequence[str], cpu_seconds: int, all_cpu_seconds: int
    ) -> None:
        self._sandbox, self._sources = sandbox, sources
        self._cpu_seconds = cpu_seconds
        """CPU time of a call."""
        self._all_cpu_seconds = all_cpu_seconds
        """CPU time of all calls together."""
        self._box: Box | None = None
        self._verdict: Verdict | None = None
        self._deadline = 0.0

    def call(self, content: bytes, tests: Box) -> Verdict | None:
        """Send a call, and hand its answer on to the tests. Return the verdict if there is no answer and will be none."""
        return self._answered(tests, lambda box, seconds: box.send(content, seconds))

    def call_of(self, tests: Box, size: int) -> Verdict | None:
        """Do the same with the call of this size that comes from the tests."""
        return self._answered(tests, lambda box, seconds: tests.relay(size, box, seconds))

    def close(self) -> None:
        """End the program's sandbox."""
        if self._box is not None:
            self._box.close()

    def _answered(self, tests: Box, send: Callable[[Box, float], None]) -> Verdict | None:
        if self._verdict is None:
            try:
                box = self._box or self._started()
                send(box, self._wall)
                size = self._size(box, self._sandbox.limits.output_bytes)
                if size is None:
                    self._verdict = self._ended(box)
                else:
                    box.relay(size, tests, self._wall)
            except OutOfTimeError:
                self._verdict = "timeout"
            except (ClosedError, OSError, ValueError):
                self._verdict = "failed"
        return self._verdict

    def _started(self) -> Box:
        limits = self._sandbox.limits
        self._box = box = self._sandbox.box()
        box.request("load", sources=list(self._sources))
        box.request("calls", cpu_seconds=self._cpu_seconds, all_cpu_seconds=self._all_cpu_seconds)
        self._deadline = time.monotonic() + self._all_cpu_seconds * limits.wall_factor
        self._size(box, 0)  # it says that it has been executed
        return box

    @property
    def _wall(self) -> float:
        wall = self._cpu_seconds * self._sandbox.limits.wall_factor
        return min(wall, max(0.0, self._deadline - time.monotonic()))

    def _size(self, box: Box, largest: int) -> int | None:
        """Return the size of the program's next message; None if it has ended.

        Raises:
            OutOfTimeError: If it takes too much time, or CPU time by the kernel's count: a program need not hear signals.
        """
        end, first = time.monotonic() + self._wall, None
        while True:
            left = end - time.monotonic()
            try:
                return box.receive(min(left, _LOOK_SECONDS), largest)
            except OutOfTimeError:
                used = None if left <= 0 else box.cpu(START_SECONDS)
                if left <= 0 or (used and first and used - first > self._cpu_seconds + 1):
                    raise
                first = first or used

    def _ended(self, box: Box) -> Verdict:
        return "timeout" if is_cpu_limit(box.end(START_SECONDS), self._cpu_seconds) else "failed"


def is_cpu_limit(report: Mapping[str, Any] | None, seconds: int) -> bool:
    """True if the kernel ended a process because of its CPU time: by SIGXCPU, or by SIGKILL if it handled SIGXCPU."""
    if report is None:
        return False
    ended_by: int | None = report["signal"]
    return ended_by == signal.SIGXCPU or (
        ended_by == signal.SIGKILL and bool(report["cpu"] >= seconds)
    )
