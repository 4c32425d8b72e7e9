"""A program in a sandbox whose functions are called."""

import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regrade.processes.sandbox.box import Box, OutOfTimeError
from regrade.processes.sandbox.inside.frames import ClosedError
from regrade.processes.sandbox.inside.plain import Opaque, Value, value_of
from regrade.processes.sandbox.sandbox import Sandbox

Verdict = Literal["passed", "failed", "timeout"]
"""`timeout`: the program used more time than a test has."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception of a call."""

    error: str
    """Name of the exception's type."""


class CalledProgram:
    """A program whose functions are called; its sandbox starts with the first call."""

    def __init__(self, sandbox: Sandbox, sources: Sequence[str], cpu_seconds: int) -> None:
        self._sandbox, self._sources = sandbox, sources
        self._cpu_seconds = cpu_seconds
        """CPU time of a call."""
        self._box: Box | None = None
        self._ended: Verdict | None = None
        self._deadline = 0.0

    def call(self, text: str) -> bytes | Verdict:
        """Return the answer to a call, or the verdict if there will be no answer."""
        if self._ended is not None:
            return self._ended
        limits = self._sandbox.limits
        if self._box is None:
            self._box = self._sandbox.box()
            self._box.request("load", sources=list(self._sources))
            self._box.request("calls", cpu_seconds=self._cpu_seconds)
            self._deadline = time.monotonic() + limits.program_cpu_seconds * limits.wall_factor
        wall = self._cpu_seconds * limits.wall_factor
        left = min(wall, max(0.0, self._deadline - time.monotonic()))
        try:
            self._box.call(text, left)
            answer = self._box.result(left, limits.output_bytes)
            if answer is None:
                report = self._box.report(wall)
                self._ended = "timeout" if is_cpu_limit(report, self._cpu_seconds) else "failed"
                return self._ended
        except OutOfTimeError:
            self._ended = "timeout"
        except (ClosedError, OSError, ValueError):
            self._ended = "failed"
        else:
            if _is_answer(answer):
                return answer
            self._ended = "failed"
        return self._ended

    def close(self) -> None:
        """End the program's sandbox."""
        if self._box is not None:
            self._box.close()


def is_cpu_limit(report: Mapping[str, Any] | None, seconds: int) -> bool:
    """True if the kernel ended a process because of its CPU time: by SIGXCPU, or by SIGKILL if it handled SIGXCPU."""
    if report is None:
        return False
    ended_by: int | None = report["signal"]
    return ended_by == signal.SIGXCPU or (
        ended_by == signal.SIGKILL and bool(report["cpu"] >= seconds)
    )


def _is_answer(answer: bytes) -> bool:
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(content, dict)
        and len(content) == 1
        and bool({"value", "raised"} & content.keys())
    )


def value_in(answer: bytes) -> Value | Raised:
    """Return the value of a call's answer; an `Opaque` if it does not have the sandbox's form."""
    content = json.loads(answer)
    if "raised" in content:
        return Raised(str(content["raised"]))
    try:
        return value_of(content["value"])
    except ValueError:
        return Opaque("forged")
