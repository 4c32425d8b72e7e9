"""Run the tests of a module against mutants of it, in a copy of the repository."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

MARKERS = "not slow and not stack and not vllm and not prefect"
NO_TESTS_COLLECTED = 5


class Outcome(StrEnum):
    """Result of the tests for a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


class BaselineError(Exception):
    """The tests of a module cannot judge its mutants."""


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Copy the files of a checkout that git tracks or does not ignore into a temporary folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    with TemporaryDirectory(prefix="regrade-mutants-") as scratch:
        copy = Path(scratch) / "copy"
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (root / name).is_file():  # a deleted file stays in git's index
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        yield copy


@dataclass(frozen=True, slots=True)
class ModuleTests:
    """Tests of one module in a copy of the repository."""

    copy: Path
    module: str
    """Path of the module, relative to the copy."""
    paths: Sequence[str]
    """Files or folders of tests, relative to the copy."""
    limit: float
    """Seconds after which a mutant has timed out."""

    @classmethod
    def measured(cls, copy: Path, module: str, paths: Sequence[str]) -> "ModuleTests":
        """Time the tests without a change; a mutant gets 20 s and three times as long.

        Raises:
            BaselineError: The tests fail without a change, or pass although the module cannot be imported.
        """
        tests = cls(copy, module, paths, limit=900)
        started = time.monotonic()
        # Only this run writes byte code, so that none of a mutant is left for a later one.
        outcome, output = tests._run(write_bytecode=True)
        if outcome is not Outcome.SURVIVED:
            raise BaselineError(
                f"The tests of {module} do not pass without a change:\n{output[-4000:]}"
            )
        tests = cls(copy, module, paths, limit=20 + 3 * (time.monotonic() - started))
        if tests.outcome('raise ImportError("mutant")\n') is Outcome.SURVIVED:
            raise BaselineError(f"The tests {', '.join(paths)} do not import {module} of the copy.")
        return tests

    def outcome(self, mutant: str) -> Outcome:
        """Run the tests with a mutant in place of the module; the module is restored afterwards."""
        path = self.copy / self.module
        source = path.read_bytes()
        path.write_text(mutant, encoding="utf-8")
        try:
            return self._run()[0]
        finally:
            path.write_bytes(source)

    def _run(self, *, write_bytecode: bool = False) -> tuple[Outcome, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", MARKERS, *self.paths]
        # The same examples for every mutant: otherwise some are killed by chance.
        command += ["-p", "no:cacheprovider", "--hypothesis-seed=0"]
        environment = os.environ | {"PYTHONPATH": str(self.copy), "TMPDIR": str(self.copy.parent)}
        environment["PYTHONDONTWRITEBYTECODE"] = "" if write_bytecode else "1"
        process = subprocess.Popen(
            command,
            cwd=self.copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            return Outcome.TIMED_OUT, f"no end after {self.limit:.0f} s"
        finally:
            _kill_group(process)
        if process.returncode == NO_TESTS_COLLECTED:
            raise BaselineError(f"No tests in {', '.join(self.paths)}.")
        return (Outcome.KILLED if process.returncode else Outcome.SURVIVED), output


def _kill_group(process: subprocess.Popen[str]) -> None:
    """Kill what is left of a run: the tests, or the processes that they started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.communicate()
