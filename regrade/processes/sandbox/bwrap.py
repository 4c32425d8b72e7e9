"""Backend `bwrap`: bubblewrap gives each program its own network, processes, file system and user.

https://github.com/containers/bubblewrap
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from regrade.processes.sandbox.interpreter import NOBODY, Interpreter
from regrade.processes.sandbox.limits import Limits
from regrade.settings.errors import SandboxError

_PACKAGES = "/opt/packages"
_SCRATCH = "/tmp"
_MERGED = ("/bin", "/lib", "/lib64", "/lib32", "/sbin")
"""Folders that are links into /usr on most systems."""
_VARIABLES = {
    "PATH": "/usr/bin:/bin",
    "HOME": _SCRATCH,
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUTF8": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Bubblewrap:
    """Starts sandboxes with `bwrap`."""

    name = "bwrap"
    weaker = ""

    def __init__(self, interpreter: Interpreter, limits: Limits) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxError(
                "Programs are run in bubblewrap, which is not installed: `apt install bubblewrap`, or `dnf install "
                "bubblewrap`. Where containers cannot use it, choose the weaker `--sandbox landlock` (docs/code.md)."
            )
        self._interpreter, self._limits = interpreter, limits
        self._program = program

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Do nothing, because bubblewrap needs no files outside."""
        yield

    @property
    def setup(self) -> dict[str, Any]:
        """Options of the backend for the runner, which applies them to itself."""
        return {
            "landlock": None,
            "folder": _SCRATCH,
            "scratch": [
                (_SCRATCH, self._limits.scratch_mib, self._limits.scratch_files),
                ("/dev/shm", 1, 64),
            ],
            "packages": [_PACKAGES] if self._interpreter.packages else [],
            "tasks": self._limits.threads + 8,
            "file_mib": self._limits.file_mib,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the command; the program's is in its arguments."""
        return {"PATH": "/usr/bin:/bin"}

    def command(self, python: list[str]) -> list[str]:
        """Return the command that runs Python with these arguments in a new sandbox."""
        return [
            self._program,
            # As process 1 there is nothing above the runner: bubblewrap's own process has no filter, and can be written to.
            *(
                "--unshare-all",
                "--unshare-user",
                "--die-with-parent",
                "--new-session",
                "--as-pid-1",
            ),
            *(
                "--uid",
                str(NOBODY),
                "--gid",
                str(NOBODY),
                "--cap-drop",
                "ALL",
                "--hostname",
                "sandbox",
            ),
            "--clearenv",
            *(part for name, value in _VARIABLES.items() for part in ("--setenv", name, value)),
            *("--ro-bind", "/usr", "/usr"),
            *(part for folder in _MERGED for part in _merged(folder)),
            *self._python_folders(),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--dir", _SCRATCH, "--remount-ro", "/dev", "--chdir", _SCRATCH, "--remount-ro", "/"),
            self._interpreter.path,
            *python,
        ]

    def _python_folders(self) -> Iterator[str]:
        prefix = PurePosixPath(self._interpreter.prefix)
        if not prefix.is_relative_to("/usr"):
            yield from ("--ro-bind", str(prefix), str(prefix))
        for folder in self._interpreter.packages:
            yield from ("--ro-bind", folder, f"{_PACKAGES}/{Path(folder).name}")

    def explained(self, stderr: str) -> str:
        """Return a sentence about why a sandbox did not start."""
        lines = stderr.strip().splitlines()
        message = lines[-1] if lines else "bwrap ended without a message"
        advice = ""
        if "namespace" in message or "Operation not permitted" in message or "uid map" in message:
            advice = (
                " Namespaces are not allowed here, which is the default of Docker and Kubernetes, and of Ubuntu from "
                "23.10 on: docs/code.md has the settings that allow them. Or choose the weaker `--sandbox landlock`."
            )
        elif "Unknown option" in message:
            advice = f" This is bubblewrap {self.version()}; 0.7 or newer is needed. Or choose the weaker `--sandbox landlock`."
        return f"{message.rstrip('.')}.{advice}"

    def version(self) -> str:
        """Version of bubblewrap."""
        done = subprocess.run(
            [self._program, "--version"], capture_output=True, text=True, check=True
        )
        return done.stdout.split()[-1]


def _merged(folder: str) -> tuple[str, ...]:
    path = Path(folder)
    if path.is_symlink():
        return ("--symlink", str(path.readlink()), folder)
    return ("--ro-bind", folder, folder) if path.is_dir() else ()
