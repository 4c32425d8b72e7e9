"""Run an external harness against a model that regrade serves, and import what it leaves."""

import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from regrade.answers.opening import open_repository
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.environment import worker_environment
from regrade.engines.vllm_process.server import NAME as SERVED
from regrade.engines.vllm_process.server import ModelServer, server_arguments, serving
from regrade.exchange.importing.base import TableOptions
from regrade.exchange.importing.building import Names
from regrade.exchange.importing.importer import Imports, import_files
from regrade.jobs.job import Answers, default_answers
from regrade.jobs.plans_of_job import planned
from regrade.jobs.time_spent import RunClock
from regrade.models.base import ResolvedModel
from regrade.processes.supervised import SupervisedProcess
from regrade.settings import Settings
from regrade.settings.errors import OperationError, SettingsError
from regrade.settings.marks import FIRST, NAME, PATH, OnWorker
from regrade.settings.worker_limits import refuse_programs

logger = logging.getLogger("regrade")
Harness = Literal["inspect", "harbor"]
COMMANDS: Final[Mapping[Harness, tuple[str, ...]]] = {
    "inspect": (
        *("inspect", "eval", "--model", f"openai-api/regrade/{SERVED}"),
        *("--model-base-url", "{base_url}", "--log-dir", "{output}", "--log-format", "json"),
        *("--display", "plain"),
    ),
    "harbor": ("harbor", "run", "--model", "hosted_vllm/{model}", "--jobs-dir", "{output}"),
}
"""Commands of known harnesses, which the job's arguments follow."""
_KEYS = ("OPENAI_API_KEY", "REGRADE_API_KEY", "HOSTED_VLLM_API_KEY")
_BASES = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "REGRADE_BASE_URL", "HOSTED_VLLM_API_BASE")
"""Variables in which harnesses look for key and address; Inspect's have the name of its provider, `regrade`."""
_GRACE = 10.0


class HarnessError(OperationError):
    """A harness failed, or left nothing."""


def _check_worker(_: tuple[str, ...]) -> None:
    refuse_programs("`arguments`")


class HarnessJob(Settings):
    """A model to serve, and the program that asks it."""

    option_group = "The harness"

    model: Annotated[str, PATH, NAME, FIRST] = Field(min_length=1)
    """Model on the Hub (`org/name` or `org/name@revision`), or a checkpoint's folder."""
    harness: Annotated[Harness | None, FIRST] = None
    """Known harness, whose command the arguments follow. Default: the arguments are the whole command."""
    arguments: Annotated[tuple[str, ...], FIRST, OnWorker(_check_worker)] = Field(min_length=1)
    """Program and arguments, or what follows a known harness' command, such as a task. `{base_url}`, `{model}` and `{output}` stand
    for the server's address, the model's name there, and the folder whose files are imported."""
    time_limit: Annotated[float, FIRST] = Field(86_400.0, gt=0, title="Time limit in seconds")
    """Seconds after which the harness is ended."""
    benchmark: str | None = None
    """Name of the benchmark, instead of that in the files."""
    score_range: tuple[float, float] | None = None
    """Worst and best reward; 0 and 1 if not given."""
    engine: VllmEngine = VllmEngine()
    """Settings of vLLM. A harness with tools needs the model's `tool_parser`."""
    answers: Answers = Field(default_factory=default_answers)

    @model_validator(mode="after")
    def _leaves_files(self) -> Self:
        if self.harness is None and not any("{output}" in part for part in self.arguments):
            raise ValueError(
                "the command should write its files into `{output}`, from which they are imported"
            )
        return self

    def command(self, base_url: str, output: str) -> list[str]:
        """Return the harness' command."""
        known = () if self.harness is None else COMMANDS[self.harness]
        values = {"base_url": base_url, "model": SERVED, "output": output}
        return [_filled(part, values) for part in (*known, *self.arguments)]


def _filled(part: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        part = part.replace(f"{{{name}}}", value)
    return part


def served_model(job: HarnessJob) -> ResolvedModel:
    """Return the model to serve, if the harness can be run here and its results can be kept.

    Raises:
        SettingsError: If the harness is not installed, or a setting of the engine has no meaning for a server.
        ModelError: If the model does not exist or is incomplete.
        RepositoryError: If the answers cannot be kept at their address.
    """
    program = job.command("", "")[0]
    if shutil.which(program) is None:
        raise SettingsError(
            f"The program '{program}' is not installed here. Install the harness into an environment of its own, and put its "
            "folder on PATH, or give the program's path."
        )
    job.engine.check_here()
    model = job.engine.resolve(job.model)
    server_arguments(job.engine, model)
    open_repository(job.answers, create=True)
    return model


def run_harness(job: HarnessJob, log: Path, engine_log: Path, clock: RunClock) -> Imports:
    """Serve the model, run the harness, and import the files that it left.

    Args:
        job: Model and harness.
        log: File to which the harness' output is appended.
        engine_log: File to which the server's output is appended.
        clock: Counts the seconds of server and harness.

    Raises:
        RegradeError: As `served_model`.
        EngineError: If the server does not start, or ends.
        HarnessError: If the harness fails, takes too long, or leaves nothing that can be imported.
    """
    model = planned(served_model, job)
    begun = time.monotonic()
    with _kept_unless_imported(log.with_suffix(".output")) as output:
        with (
            serving(job.engine, model, engine_log) as server,
            TemporaryDirectory(prefix="regrade-harness-") as scratch,
        ):
            logger.info("%s is served at %s", job.model, server.base_url)
            answering = time.monotonic()
            clock.loaded(answering - begun, 0.0)
            _run(job, server, output, log, Path(scratch))
            clock.generated(answering, None)
        repository = open_repository(job.answers, create=False, empty=True)
        return import_files(
            repository,
            [output],
            table=TableOptions(score_range=job.score_range),
            names=Names(model=model.identity.name, benchmark=job.benchmark),
        )


@contextmanager
def _kept_unless_imported(folder: Path) -> Iterator[Path]:
    """Make a folder for what a harness writes, and remove it at the end; if that comes early, by a cancel too, it stays.

    The log names it before anything is written: a process that is cancelled may be gone before a slow harness and the server have ended.
    """
    folder.mkdir(parents=True)
    logger.info("The harness writes into '%s', which stays unless it is imported.", folder)
    try:
        yield folder
    except BaseException:
        if any(folder.iterdir()):
            logger.warning(
                "What the harness left is in '%s'; `regrade import %s` reads what is complete.",
                folder,
                folder,
            )
        else:
            folder.rmdir()
        raise
    shutil.rmtree(folder)


def _run(job: HarnessJob, server: ModelServer, output: Path, log: Path, scratch: Path) -> None:
    """Run the command to its end, and log its output as it comes."""
    environment = worker_environment(os.environ, scratch)
    environment |= dict.fromkeys(_KEYS, server.api_key) | dict.fromkeys(_BASES, server.base_url)
    environment.pop("PYTHONPATH", None)  # it would hide the harness' own packages
    log.parent.mkdir(parents=True, exist_ok=True)
    start = log.stat().st_size if log.exists() else 0
    command = job.command(server.base_url, str(output))
    process = SupervisedProcess(command, log, environment, grace=_GRACE)
    deadline = time.monotonic() + job.time_limit
    last = ""
    try:
        with log.open("rb") as written:
            written.seek(start)
            while not process.has_ended(0.5):
                last = _shown(written) or last
                if server.process.has_ended():
                    reason = server.process.end_with_reason()
                    raise HarnessError(f"vLLM's server ended while the harness ran: {reason}.")
                if time.monotonic() > deadline:
                    raise HarnessError(
                        f"The harness was ended after {job.time_limit:g} s (`time_limit`). Its output is in '{log}'."
                    )
            last = _shown(written) or last
    finally:
        status = process.end()
    if status:
        raise HarnessError(
            f"The harness ended with exit code {status}. Its output is in '{log}'; the last line: {last or 'none'}"
        )


def _shown(lines: Iterable[bytes]) -> str:
    """Show the lines that were appended to a file, and return the last of them; "" if there are none."""
    last = ""
    for line in lines:
        text = line.decode(errors="replace").strip()[:1000]
        if text:
            last = text
            logger.info("harness: %s", text)
    return last
