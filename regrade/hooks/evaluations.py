"""Run an evaluation in a separate process and read the metrics that it prints."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regrade.errors import OperationError

logger = logging.getLogger("regrade.hooks")
PREFIX = "regrade"
"""First part of the names of logged metrics."""
_LOGGED = ("accuracy", "accuracy_stderr", "n", "unparsed", "truncated", "failed")
_LAUNCHER_PREFIXES = ("TORCHELASTIC_", "ACCELERATE_", "FSDP_", "OMPI_", "PMI_", "SLURM_")
_RANK_VARIABLES = {
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
}


class EvaluationFailedError(OperationError):
    """The evaluation of a checkpoint failed."""


def evaluation_command(
    model: Path | str, arguments: Sequence[str], deployment: str | None
) -> tuple[str, ...]:
    """Return the command that evaluates a model and prints a JSON document."""
    words = ("trigger", deployment, "--wait") if deployment else ("evaluate",)
    return (
        sys.executable,
        "-m",
        "regrade.cli.main",
        *words,
        "--model",
        str(model),
        *arguments,
        "--json",
    )


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
    """A started evaluation."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(environment),
                start_new_session=True,  # only the training receives Ctrl-C; `stop` ends the evaluation
            )

    def metrics(self) -> dict[str, float]:
        """Wait for the end and return the metrics; see `metrics_of` for their names.

        Raises:
            EvaluationFailedError: If the evaluation failed; the message has the last line of its log.
        """
        output, _ = self._process.communicate()
        try:
            document = json.loads(output)
        except ValueError:
            document = None
        code = self._process.returncode
        if not isinstance(document, dict) or not (metrics := metrics_of(document)):
            lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
            last = next((line for line in reversed(lines) if line.strip()), "the log is empty")
            raise EvaluationFailedError(f"exit code {code}: {last} (log: '{self.log}')")
        if code != 0 and not document.get("gate"):
            logger.warning("the evaluation is incomplete (exit code %d): see '%s'", code, self.log)
        return metrics

    def stop(self) -> None:
        """Send SIGTERM. Finished answers are kept, and a later evaluation of the checkpoint continues from there."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)


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
