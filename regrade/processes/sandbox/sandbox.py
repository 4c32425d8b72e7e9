"""Kinds of sandboxes: bubblewrap or Landlock, opened after a test that they hold."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from regrade.processes.sandbox.box import Backend, Box
from regrade.processes.sandbox.bwrap import Bubblewrap
from regrade.processes.sandbox.interpreter import Interpreter, find_interpreter
from regrade.processes.sandbox.landlock import Landlock
from regrade.processes.sandbox.limits import Limits
from regrade.processes.sandbox.syscalls import SELF, seccomp_filter
from regrade.settings import SandboxName


class Sandbox:
    """Runs untrusted programs, each in a sandbox of its own.

    `Runner` is used by one thread at a time; a sandbox serves any number of runners.
    """

    def __init__(self, backend: Backend, interpreter: Interpreter, limits: Limits) -> None:
        self._backend = backend
        self.interpreter, self.limits = interpreter, limits
        self._setup = {
            **asdict(limits),
            "filter": seccomp_filter().hex(),
            "self": SELF,
            "test_wall_seconds": limits.test_cpu_seconds * limits.wall_factor,
        }

    def with_limits(self, limits: Limits) -> "Sandbox":
        """Return a sandbox of the same kind with other limits."""
        return Sandbox(self._backend, self.interpreter, limits)

    def box(self, preload: Sequence[str] = ()) -> Box:
        """Start a sandbox.

        Raises:
            SandboxError: If it does not start.
        """
        return Box(self._backend, self._setup, preload)


def open_backend(
    name: SandboxName, interpreter: Interpreter, limits: Limits, processes: int = 1
) -> Bubblewrap | Landlock:
    """Return a kind of sandbox, without a test that it holds.

    Raises:
        SandboxError: If it is not installed here.
    """
    if name == "bwrap":
        return Bubblewrap(interpreter, limits)
    return Landlock(interpreter, limits, processes)


@contextmanager
def open_sandbox(
    name: SandboxName = "bwrap", *, limits: Limits | None = None, processes: int = 1
) -> Iterator[Sandbox]:
    """Open a kind of sandbox, after a test that shows that it holds.

    Args:
        name: Kind of the sandbox. No other kind is used instead, and programs never run without a sandbox.
        limits: Limits of a program. None: the defaults.
        processes: Programs that may run at the same time.

    Raises:
        SandboxError: If this machine does not allow it, or the test finds a gap.
    """
    from regrade.processes.sandbox.self_test import check  # noqa: PLC0415 - imports this module

    limits = limits or Limits()
    interpreter = find_interpreter()
    backend = open_backend(name, interpreter, limits, processes)
    with backend.prepared():
        sandbox = Sandbox(backend, interpreter, limits)
        check(sandbox, name)
        yield sandbox
