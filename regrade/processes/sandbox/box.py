"""One sandbox: its process, and the messages to and from it.

What a program says is not read here: its messages are handed on to the sandbox of the tests (`relay`), a piece at a time.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from regrade.processes.sandbox.inside import (
    comparing,
    frames,
    judging,
    kernel,
    plain,
    programs,
    runner,
)
from regrade.processes.sandbox.inside.frames import (
    HEAD,
    ClosedError,
    frame_of,
    read_frame,
    size_in,
    write_frame,
)
from regrade.processes.sandbox.interpreter import credentials
from regrade.settings.errors import SandboxError

START_SECONDS = 60.0
"""Time for a sandbox to start, on a busy machine too."""
_PIECE = 1 << 16
"""Bytes that are read at once, and so the most that is kept of a program's messages."""
_MODULES = (frames, plain, comparing, kernel, programs, judging, runner)
"""Modules that run inside, each after those that it imports."""
_PACKAGES = ("regrade", "regrade.processes.sandbox", "regrade.processes.sandbox.inside")
_BOOTSTRAP = """
import sys, types
from _frozen_importlib import ModuleSpec
sources = {modules}
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, Finder) if name in sources else None
    @staticmethod
    def create_module(spec):
        return None
    @staticmethod
    def exec_module(module):
        exec(compile(sources[module.__name__], "<" + module.__name__ + ">", "exec", dont_inherit=True), module.__dict__)
sys.meta_path.append(Finder)
for name in {packages}:
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = []
from regrade.processes.sandbox.inside import runner
runner.main()
"""
"""Makes the modules importable from their sources, so that only modules in use are compiled."""


class OutOfTimeError(Exception):
    """A program did not answer in time."""


class Backend(Protocol):
    """A way to confine programs."""

    @property
    def setup(self) -> dict[str, Any]:
        """Options of the backend for the runner, which applies them to itself."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the command."""

    def command(self, python: list[str]) -> list[str]:
        """Return the command that runs Python with these arguments in a new sandbox."""

    def explained(self, stderr: str) -> str:
        """Return a sentence about why a sandbox did not start."""


@cache
def _bootstrap() -> str:
    """Return the program that Python runs inside: the modules of `inside`, which need not exist there."""
    modules = {
        module.__name__: Path(str(module.__file__)).read_text(encoding="utf-8")
        for module in _MODULES
    }
    return _BOOTSTRAP.format(packages=_PACKAGES, modules=modules)


class Box:
    """A running sandbox. It runs one program after another, each in a process of its own."""

    def __init__(
        self, backend: Backend, setup: Mapping[str, Any], preload: Sequence[str] = ()
    ) -> None:
        """Start a sandbox, and wait until it is ready.

        Args:
            backend: Way to confine the program.
            setup: Limits and system call filter.
            preload: Modules to import before the first program.

        Raises:
            SandboxError: If it does not start.
        """
        self._unread, self._requests = os.pipe()
        self._results, results = os.pipe()
        self._received = b""
        self._ended: dict[str, Any] | None = None
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                backend.command(["-s", "-S", "-c", _with_pipes(self._unread, results)]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=backend.environment,
                pass_fds=(self._unread, results),
                cwd="/",
                start_new_session=True,
                **credentials(),
            )
        except OSError as error:
            for descriptor in (self._unread, self._requests, self._results):
                os.close(descriptor)
            raise SandboxError(f"A sandbox could not be started: {error}.") from error
        finally:
            os.close(results)
        os.set_blocking(self._requests, False)
        try:
            self._send({**setup, **backend.setup, "preload": list(preload)})
            self.python = self.report(START_SECONDS)["python"]
        except (ClosedError, OSError, OutOfTimeError, ValueError) as error:
            problem = backend.explained(self._last_words())
            self.close()
            raise SandboxError(f"A sandbox did not start: {problem}") from error

    def __enter__(self) -> "Box":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        with suppress(ProcessLookupError):  # it has ended; its id stays reserved until `wait`
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):  # the rest was not sent yet
                    pipe.close()
        for descriptor in (self._unread, self._requests, self._results):
            if descriptor >= 0:
                os.close(descriptor)
        self._unread = self._requests = self._results = -1

    def request(self, do: str, **content: object) -> None:
        """Ask for something; `inside/runner.py` has the requests. What the program before left unread, or wrote unheard, is dropped.

        Raises:
            ClosedError, OSError: If the sandbox has ended.
        """
        self._received = b""
        while left := _ready([self._results, self._unread], 0.0):
            if not os.read(left[0], _PIECE):
                raise ClosedError
        self._send({"do": do, **content})

    def send_input(self, content: bytes) -> None:
        """Send the input of a script."""
        assert self._process.stdin is not None  # noqa: S101 - for mypy
        write_frame(self._process.stdin.fileno(), content)

    def report(self, seconds: float) -> dict[str, Any]:
        """Return the runner's next report, which is as short as the runner makes it.

        Raises:
            OutOfTimeError: If it does not come in time.
            ClosedError: If the sandbox has ended.
        """
        deadline = time.monotonic() + seconds

        def read(source: int, size: int) -> bytes:
            if not _ready([source], deadline - time.monotonic()):
                raise OutOfTimeError
            return os.read(source, size)

        report: dict[str, Any] = json.loads(read_frame(self._control, read))
        return report

    def cpu(self, seconds: float) -> float | None:
        """Return the CPU time of the program that runs, as the kernel counts it; None if it has ended."""
        self._send({"do": "cpu"})
        report = self.report(seconds)
        if "used" in report:
            return float(report["used"])
        self._ended = report
        return None

    def send(self, content: bytes, seconds: float) -> None:
        """Send a message to the program. What it does not take any more is lost; `receive` says that it has ended.

        Raises:
            OutOfTimeError: If the program does not read it in time.
        """
        self._write(frame_of(content), time.monotonic() + seconds)

    def receive(self, seconds: float, largest: int) -> int | None:
        """Return the size of the program's next message, in bytes; None if the program has ended without one.

        Raises:
            OutOfTimeError: If neither happens in time.
            ClosedError: If the program or the sandbox has ended within a message.
            ValueError: If the program wrote something else, or more than `largest` bytes.
        """
        deadline = time.monotonic() + seconds
        if not self._received and not self._more(deadline):
            return None
        while len(self._received) < HEAD:
            if not self._more(deadline):
                raise ClosedError
        size = size_in(self._received[:HEAD], largest)
        self._received = self._received[HEAD:]
        return size

    def take(self, size: int, seconds: float) -> bytes:
        """Return a message of the size that `receive` returned: one that may be read here.

        Raises:
            OutOfTimeError, ClosedError: See `receive`.
        """
        return b"".join(self._pieces(size, time.monotonic() + seconds))

    def relay(self, size: int, target: "Box", seconds: float) -> None:
        """Hand a message of the size that `receive` returned on to the program in another sandbox.

        Raises:
            OutOfTimeError, ClosedError: See `receive`; `target` has got zeros for the rest.
        """
        deadline = time.monotonic() + seconds
        target._write(b"%08x" % size, deadline)
        try:
            for piece in self._pieces(size, deadline):
                target._write(piece, deadline)
                size -= len(piece)
        except (OutOfTimeError, ClosedError):
            target._write(bytes(size), time.monotonic() + START_SECONDS)
            raise

    def end(self, seconds: float) -> dict[str, Any]:
        """Return the report of the program's end."""
        ended, self._ended = self._ended, None
        return ended or self.report(seconds)

    def _pieces(self, size: int, deadline: float) -> Iterator[bytes]:
        while size:
            if not self._received and not self._more(deadline):
                raise ClosedError
            piece = self._received[:size]
            self._received = self._received[size:]
            size -= len(piece)
            yield piece

    def _more(self, deadline: float) -> bool:
        """Read what has come from the program; False if it has ended and nothing is left."""
        if self._ended is None:
            ready = _ready([self._results, self._control], deadline - time.monotonic())
            if not ready:
                raise OutOfTimeError
        else:
            ready = _ready([self._results], 0.0)
        if self._results not in ready:
            return False
        self._received += os.read(self._results, _PIECE)
        return bool(self._received)

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._requests, view) :]
            except BlockingIOError:
                ready = self._ended or _ready(
                    [self._control], deadline - time.monotonic(), [self._requests]
                )
                if not ready:
                    raise OutOfTimeError from None
                if self._ended or self._control in ready:
                    return

    @property
    def _control(self) -> int:
        assert self._process.stdout is not None  # noqa: S101 - for mypy
        return self._process.stdout.fileno()

    def _send(self, content: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - for mypy
        write_frame(self._process.stdin.fileno(), json.dumps(content).encode())

    def _last_words(self) -> str:
        self._process.kill()
        assert self._process.stderr is not None  # noqa: S101 - for mypy
        words: bytes = self._process.stderr.read(1 << 16)
        return words.decode(errors="replace")


def _with_pipes(requests: int, results: int) -> str:
    """Return the runner's program, after the two pipes were moved to their descriptors."""
    return (
        f"import os; r, w = os.dup({requests}), os.dup({results})\n"
        "os.dup2(r, 3); os.dup2(w, 4)\n" + _bootstrap()
    )


def _ready(reading: Sequence[int], seconds: float, writing: Sequence[int] = ()) -> list[int]:
    """Return the descriptors that can be read or written, or whose other end is closed; empty if the time is over.

    `select.select` knows only descriptors below 1,024.
    """
    poll = select.poll()
    for descriptor in reading:
        poll.register(descriptor, select.POLLIN)
    for descriptor in writing:
        poll.register(descriptor, select.POLLOUT)
    return [descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)]
