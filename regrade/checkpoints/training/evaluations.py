"""Run an evaluation in a separate process and read the metrics that it prints."""

import json
import logging
import os
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regrade.processes.supervised import SupervisedProcess
from regrade.settings.errors import OperationError

logger = logging.getLogger("regrade.hooks")
PREFIX = "regrade"
"""First part of the names of logged metrics."""
_LOGGED = ("accuracy", "accuracy_stderr", "n", "unparsed", "truncated", "failed")
GRACE = 15.0
"""Seconds from SIGTERM to SIGKILL: `regrade evaluate` ends within 6 s, and `regrade trigger` cancels its flow run."""
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


def evaluation_command(
    model: Path | str, arguments: Sequence[str], deployment: str | None
) -> tuple[str, ...]:
    """Return the command that evaluates a model and prints a JSON document."""
    words = _words(model, arguments, deployment)
    return (sys.executable, "-m", "regrade.cli.main", *words, "--json")


def shown_command(model: Path | str, arguments: Sequence[str], deployment: str | None) -> str:
    """Return the same command as text for a shell."""
    return shlex.join(("regrade", *_words(model, arguments, deployment)))


def _words(model: Path | str, arguments: Sequence[str], deployment: str | None) -> tuple[str, ...]:
    command = ("trigger", deployment, "--wait") if deployment else ("evaluate",)
    return (*command, "--model", str(model), *arguments)


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


class Evaluation:
    """A started evaluation. It ends with this process, even by SIGKILL.

    Finished answers are kept, and a later evaluation of the checkpoint continues from there.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start the command.

        Args:
            command: Program and arguments.
            environment: Environment variables of the command.
            log: File for its log, replaced if it exists. What it prints goes to a file of that name with the suffix `.json`.
        """
        self.log, self._output = log, log.with_suffix(".json")
        log.parent.mkdir(parents=True, exist_ok=True)
        for path in (log, self._output):
            path.unlink(missing_ok=True)
        self._process = SupervisedProcess(
            command, log, environment, grace=GRACE, output=self._output
        )

    def metrics(self, stop: threading.Event) -> dict[str, float]:
        """Wait for the end and return the metrics; see `metrics_of` for their names.

        Args:
            stop: Ends the evaluation when it is set.

        Raises:
            EvaluationFailedError: If the evaluation failed; the message has the last line of its log.
        """
        try:
            while not self._process.has_ended():
                if stop.wait(0.2):
                    raise EvaluationFailedError("it was stopped")
        finally:
            code = self._process.end()
        try:
            document = json.loads(self._output.read_bytes())
        except ValueError:
            document = None
        if not isinstance(document, dict) or not (metrics := metrics_of(document)):
            lines = self.log.read_text(errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "the log is empty")
            raise EvaluationFailedError(f"exit code {code}: {last} (log: '{self.log}')")
        if code != 0 and not document.get("gate"):
            logger.warning("the evaluation is incomplete (exit code %d): see '%s'", code, self.log)
        return metrics


def metrics_of(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics to log from the JSON output of `regrade evaluate` or `regrade trigger --wait`.

    Names are `regrade/<benchmark>/<metric>`. A verdict is `regrade/gate`: 0 pass, 1 regression, 2 cannot tell.
    """
    rows = [
        {"benchmark": answers["benchmark"], **score["metrics"]}
        for answers in document.get("answer_sets", ())
        for score in answers["scores"]
        if score["headline"]
    ]
    metrics: dict[str, float] = {}
    for row in [*rows, *document.get("metrics", ())]:
        for name in _LOGGED:
            if isinstance(row.get(name), int | float):
                metrics[f"{PREFIX}/{row['benchmark']}/{name}"] = row[name]
    if document.get("gate"):
        metrics[f"{PREFIX}/gate"] = document["exit_code"]
    return metrics
