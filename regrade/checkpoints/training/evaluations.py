"""A process that evaluates checkpoints, and the metrics that it prints."""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regrade.processes.supervised import SupervisedProcess
from regrade.settings.errors import OperationError

PREFIX = "regrade"
"""First part of the names of logged metrics."""
LOGS = "regrade-logs"
"""Name of the folder for logs of evaluations, in a training's output folder."""
_LOGGED = ("accuracy", "accuracy_stderr", "n", "unparsed", "truncated", "failed")
_VERDICTS = ("pass", "regression", "cannot tell")
GRACE = 15.0
"""Seconds from SIGTERM to SIGKILL: `regrade evaluate` ends within 6 s."""
_LAUNCHER_PREFIXES = (
    *("TORCHELASTIC_", "ACCELERATE_", "FSDP_", "OMPI_", "PMI_", "PMIX_", "SLURM_"),
    "PREFECT__",  # variables of the flow run in which the training runs, such as its id
)
_RANK_VARIABLES = {
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE"),  # deepspeed
}


class EvaluationFailedError(OperationError):
    """The evaluation of a checkpoint failed."""


def evaluation_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command of regrade that prints JSON."""
    return (sys.executable, "-m", "regrade.cli.main", *words, "--json")


def shown_command(words: Sequence[str]) -> str:
    """Return the same command as text for a shell."""
    return shlex.join(("regrade", *words))


def evaluation_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an evaluation, without the variables that a launcher sets for a training's ranks.

    Otherwise vLLM would use the training's address and rank.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _RANK_VARIABLES and not name.startswith(_LAUNCHER_PREFIXES)
    }
    return inherited | dict(changes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the evaluation of a checkpoint."""

    checkpoint: str | None
    """Name of its folder; None for the first that waits, if the process ended before it named one."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


class Evaluation:
    """The process that evaluates each checkpoint that comes. It ends with this process, even by SIGKILL.

    Finished answers are kept, and a later evaluation of a checkpoint continues from there.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start the command.

        Args:
            command: Program and arguments. It prints a line when it begins and when it ends with a checkpoint.
            environment: Environment variables of the command.
            log: File for its log, replaced if it exists. What it prints goes to a file of that name with the suffix `.json`.
        """
        self.running: str | None = None
        """Name of the checkpoint that is evaluated now; None if the process has not named one."""
        self.log, self._output = log, log.with_suffix(".json")
        self._read = 0
        self._named = False
        """The process has named a checkpoint, or its end was told."""
        log.parent.mkdir(parents=True, exist_ok=True)
        for path in (log, self._output):
            path.unlink(missing_ok=True)
        self._process = SupervisedProcess(
            command, log, environment, grace=GRACE, output=self._output
        )

    def has_ended(self, within: float = 0.0) -> bool:
        """Wait up to `within` seconds and return True if the process has ended."""
        return self._process.has_ended(within)

    def end(self) -> int:
        """End the process, and return its exit code."""
        return self._process.end()

    def outcomes(self) -> Iterator[Outcome]:
        """Yield what became of checkpoints since the last call, also of the one at which the process ended."""
        ended = self.has_ended()
        for document in self._documents():
            self.running, self._named = Path(document["model"]).name, True
            if document["ended"]:
                checkpoint, self.running = self.running, None
                metrics, error = metrics_of(document), document.get("error")
                if not metrics:
                    error = error or f"it has no result (log: '{self.log}')"
                yield Outcome(checkpoint, metrics, error and str(error))
        if ended and (self.running is not None or not self._named):
            code = self.end()
            lines = self.log.read_text(errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "the log is empty")
            yield Outcome(self.running, error=f"exit code {code}: {last} (log: '{self.log}')")
            self.running, self._named = None, True

    def _documents(self) -> Iterator[dict[str, Any]]:
        with self._output.open("rb") as file:
            file.seek(self._read)
            content = file.read()
        whole, end, _ = content.rpartition(b"\n")
        self._read += len(whole) + len(end)
        for text in whole.split(b"\n"):
            with suppress(ValueError):
                document = json.loads(text)
                if (
                    isinstance(document, dict) and "model" in document
                ):  # not the error of the command
                    yield document


def metrics_of(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics to log from a line of `regrade evaluate --follow --json`.

    Names are `regrade/<benchmark>/<metric>`. A verdict is `regrade/gate`: 0 pass, 1 regression, 2 cannot tell.
    """
    metrics: dict[str, float] = {
        f"{PREFIX}/{answers['benchmark']}/{name}": score["metrics"][name]
        for answers in document.get("answer_sets", ())
        for score in answers["scores"]
        if score["headline"]
        for name in _LOGGED
        if isinstance(score["metrics"].get(name), int | float)
    }
    if document.get("gate"):
        metrics[f"{PREFIX}/gate"] = _VERDICTS.index(document["gate"]["verdict"])
    return metrics
