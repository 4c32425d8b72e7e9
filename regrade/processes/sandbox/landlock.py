"""Backend `landlock`: without namespaces, by Landlock, the system call filter and limits (Linux 5.13 or newer).

https://docs.kernel.org/userspace-api/landlock.html
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from regrade.processes.sandbox.inside import kernel
from regrade.processes.sandbox.interpreter import NOBODY, Interpreter
from regrade.processes.sandbox.limits import Limits
from regrade.settings.errors import SandboxError

_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/lib32")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


class Landlock:
    """Starts sandboxes that Landlock and seccomp confine."""

    name = "landlock"
    weaker = (
        "Landlock has no namespaces: a program sees that files and processes exist, with their sizes and times, though it "
        "can neither read nor change them; and it can write no file at all"
    )

    def __init__(self, interpreter: Interpreter, limits: Limits, processes: int) -> None:
        if not kernel.landlock_version():
            raise SandboxError(
                "The kernel has no Landlock, or this container forbids it: `--sandbox landlock` needs Linux 5.13 or "
                "newer, and Docker 23 or newer. Use bubblewrap (`--sandbox bwrap`)."
            )
        self._interpreter, self._limits, self._processes = interpreter, limits, processes
        self._packages = ""

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Make a folder with links to the packages, so that no other package can be imported."""
        with tempfile.TemporaryDirectory(prefix="regrade-packages-") as folder:
            for package in self._interpreter.packages:
                (Path(folder) / Path(package).name).symlink_to(package)
            Path(folder).chmod(0o755)
            self._packages = folder
            yield

    @property
    def setup(self) -> dict[str, Any]:
        """Options of the backend for the runner, which applies them to itself."""
        readable = [path for path in (*_SYSTEM, self._interpreter.prefix) if Path(path).exists()]
        uid = NOBODY if os.geteuid() == 0 else os.getuid()
        return {
            "landlock": {
                "readable": [*readable, *self._interpreter.packages],
                "listed": [self._packages],
                "devices": [path for path in _DEVICES if Path(path).exists()],
            },
            "folder": "/",
            "scratch": [],
            "packages": [self._packages] if self._interpreter.packages else [],
            "tasks": _tasks_of(uid) + self._processes * (self._limits.threads + 8),
            "file_mib": 0,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the program."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": "/nonexistent",
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def command(self, python: list[str]) -> list[str]:
        """Return the command that runs Python with these arguments; it confines itself."""
        return [self._interpreter.path, *python]

    def explained(self, stderr: str) -> str:
        """Return a sentence about why a sandbox did not start."""
        lines = stderr.strip().splitlines()
        return f"{lines[-1] if lines else 'it ended without a message'}."


def _tasks_of(uid: int) -> int:
    """Number of threads of all processes of a user, which the kernel's limit counts together."""
    total = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        if uids is not None and uids.real == uid:
            total += process.info["num_threads"] or 1
    return total
