"""The command line as a person runs it, in this process or in one of its own."""

import contextlib
import functools
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from regrade.jobs.job import EvaluationJob
from regrade.settings.paths import from_this_folder, schema_of

if TYPE_CHECKING:
    from prefect.context import SettingsContext

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
DEMO = ROOT / "infra" / "demo"


def demo_parameters() -> dict[str, Any]:
    """Return the parameters of `make demo`, with paths that begin in the repository's root."""
    schema = schema_of(EvaluationJob)
    found: dict[str, Any] = from_this_folder(
        yaml.safe_load((DEMO / "demo.yaml").read_text()),
        schema,
        root=schema,
        change=lambda path: str(Path("infra/demo") / path),
    )
    return found


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def regrade(
    *arguments: str | Path, process: bool = False, timeout: float = 280, **environment: str
) -> Ran:
    """Run `regrade` in the repository's root.

    Args:
        arguments: Words of the command line.
        process: In a process of its own, which takes seconds: for what only a process has, such as signals and pipes,
            and for engines and servers that end with it.
        timeout: Seconds of the process.
        environment: Variables of the command.
    """
    words = [str(argument) for argument in arguments]
    if process:
        return run([sys.executable, "-m", "regrade.cli.main", *words], timeout, environment)
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(ROOT),
        _variables(environment),
    ):
        code = run_here(words)
    return Ran(code, out.getvalue(), err.getvalue())


def run_here(words: list[str]) -> int:
    """Run a command in this process, and return its exit code; nothing that it sets for its process lasts."""
    from regrade.cli import output, terminal
    from regrade.cli.main import run as run_command
    from regrade.processes import shutdown

    with loggers_as_before(""), pytest.MonkeyPatch.context() as patched:
        patched.setattr(output, "_written", [])
        patched.setattr(terminal.stderr, "_force_terminal", False)
        patched.setattr(sys, "stdin", io.StringIO())
        ending = SimpleNamespace(_exit=sys.exit)  # the end of the process is that of the command
        patched.setattr(shutdown, "os", ending)
        try:
            return run_command(words)
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            logging.captureWarnings(capture=False)


@contextlib.contextmanager
def loggers_as_before(*more: str) -> Iterator[None]:
    """Show log lines in the block as a command does in a fresh process, and set back what it sets for them.

    Args:
        more: Loggers besides those whose lines a command shows; their handlers of before stay during the block.
    """
    shown = [logging.getLogger(name) for name in ("regrade", "regrade.trigger", "regrade.report")]
    loggers = [*shown, *map(logging.getLogger, more)]
    before = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    for logger in shown:
        logger.handlers[:] = []
    try:
        yield
    finally:
        for logger, handlers, level, propagate in before:
            for handler in logger.handlers:
                if handler not in handlers:
                    handler.close()
            logger.handlers[:] = handlers
            if logger.level != level:  # setting it looks at all loggers of the process
                logger.setLevel(level)
            logger.propagate = propagate


@contextlib.contextmanager
def _variables(environment: dict[str, str]) -> Iterator[None]:
    """Set environment variables, also as settings of Prefect, and set back all that the block changes."""
    from prefect.logging.handlers import APILogHandler

    before = dict(os.environ)
    os.environ.update(environment)
    of_prefect = {item for item in os.environ.items() if item[0].startswith("PREFECT_")}
    try:
        with _prefect_settings(frozenset(of_prefect)).model_copy():
            yield
            if "PREFECT_API_URL" in os.environ:
                APILogHandler().flush()  # while the address is still set
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@functools.cache
def _prefect_settings(variables: frozenset[tuple[str, str]]) -> "SettingsContext":
    """Settings of Prefect as a process with these variables makes them, which takes longer than most commands."""
    from prefect.context import root_settings_context

    return root_settings_context()


def run(
    command: Sequence[str], timeout: float, environment: dict[str, str], cwd: Path = ROOT
) -> Ran:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
