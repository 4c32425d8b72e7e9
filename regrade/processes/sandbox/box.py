"""One sandbox: its process, and the messages to and from it."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from regrade.processes.sandbox.inside import frames, judging, kernel, plain, programs, runner
from regrade.processes.sandbox.inside.frames import ClosedError, frame_of, read_frame, write_frame
from regrade.processes.sandbox.interpreter import credentials
from regrade.settings.errors import SandboxError

START_SECONDS = 60.0
"""Longest time in seconds until a sandbox has started, even on a busy machine."""
_MODULES = (frames, plain, kernel, programs, judging, runner)
"""Modules that run inside, in an order of import."""
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
        requests, self._requests = os.pipe()
        self._results, results = os.pipe()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                backend.command(["-s", "-S", "-c", _with_pipes(requests, results)]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=backend.environment,
                pass_fds=(requests, results),
                cwd="/",
                start_new_session=True,
                **credentials(),
            )
        except OSError as error:
            os.close(self._requests)
            os.close(self._results)
            raise SandboxError(f"A sandbox could not be started: {error}.") from error
        finally:
            os.close(requests)
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
        for descriptor in (self._requests, self._results):
            if descriptor >= 0:
                os.close(descriptor)
        self._requests = self._results = -1

    def request(self, do: str, **content: object) -> None:
        """Send a request to the runner; see `inside/runner.py`."""
        self._send({"do": do, **content})

    def send_input(self, content: bytes) -> None:
        """Send the input of a script."""
        assert self._process.stdin is not None  # noqa: S101 - for mypy
        write_frame(self._process.stdin.fileno(), content)

    def report(self, seconds: float) -> dict[str, Any]:
        """Return the runner's next report."""
        report: dict[str, Any] = json.loads(self.output(seconds))
        return report

    def output(self, seconds: float) -> bytes:
        """Return the runner's next message.

        Raises:
            OutOfTimeError: If it does not come in time.
            ClosedError: If the sandbox has ended.
        """
        return _read(self._control, time.monotonic() + seconds)

    def call(self, text: str, seconds: float) -> None:
        """Send a call, or an answer to a call, to the program.

        If it has ended, nothing is sent, and `result` returns None.

        Raises:
            OutOfTimeError: If the program does not read it in time.
        """
        data, deadline = memoryview(frame_of(text.encode())), time.monotonic() + seconds
        while data:
            left = max(0.0, deadline - time.monotonic())
            ended, writable, _ = select.select([self._control], [self._requests], [], left)
            if ended:
                return
            if not writable:
                raise OutOfTimeError
            data = data[os.write(self._requests, data) :]

    def result(self, seconds: float, largest: int) -> bytes | None:
        """Return the program's next message, or None if the program has ended without one.

        Args:
            seconds: Time to wait for it.
            largest: Largest message that is accepted, in bytes.

        Raises:
            OutOfTimeError: If neither happens in time.
            ClosedError: If the program or the sandbox has ended within a message.
            ValueError: If the program wrote something other than a message, or a larger one.
        """
        deadline = time.monotonic() + seconds
        first = self._ready(deadline)
        if self._results not in first:
            return None

        def read(source: int, size: int) -> bytes:
            return os.read(source, size) if source in self._ready(deadline) else b""

        return read_frame(self._results, read, largest)

    @property
    def _control(self) -> int:
        assert self._process.stdout is not None  # noqa: S101 - for mypy
        return self._process.stdout.fileno()

    def _ready(self, deadline: float) -> list[int]:
        """Return the pipes, of the program's and the runner's, that can be read."""
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([self._results, self._control], [], [], left)
        if not ready:
            raise OutOfTimeError
        return ready

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


def _read(descriptor: int, deadline: float) -> bytes:
    def read(source: int, size: int) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            raise OutOfTimeError
        return os.read(source, size)

    return read_frame(descriptor, read)
