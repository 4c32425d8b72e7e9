"""One evaluation in a process of its own, and the numbers that it prints."""

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
_LOGGED = ("accuracy", "accuracy_stderr", "n", "unparsed", "truncated", "failed")
_OF_LAUNCHERS = ("TORCHELASTIC_", "ACCELERATE_", "FSDP_", "OMPI_", "PMI_", "SLURM_")
_OF_RANKS = {
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
}


class EvaluationFailedError(OperationError):
    """The evaluation of a checkpoint failed."""


def command_of(
    model: Path | str, arguments: Sequence[str], deployment: str | None
) -> tuple[str, ...]:
    """Return the command that evaluates a model and prints one JSON document."""
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


def environment_of(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an evaluation: without what the launcher told this rank of the training.

    vLLM would take its address and rank for its own.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _OF_RANKS and not name.startswith(_OF_LAUNCHERS)
    }
    return kept | dict(changes)


class Evaluation:
    """An evaluation that has been started."""

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
                start_new_session=True,  # Ctrl-C is the training's; `stop` ends this
            )

    def metrics(self) -> dict[str, float]:
        """Wait for the end and return the metrics by the names that they are logged under.

        Raises:
            EvaluationFailedError: If it failed, with the last thing it said.
        """
        out, _ = self._process.communicate()
        try:
            document = json.loads(out)
        except ValueError:
            document = None
        code = self._process.returncode
        if not isinstance(document, dict) or not (found := metrics_of(document)):
            lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
            last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            raise EvaluationFailedError(f"exit code {code}: {last} (all of it is in '{self.log}')")
        if code != 0 and not document.get("gate"):
            logger.warning("only a part was done, exit code %d: see '%s'", code, self.log)
        return found

    def stop(self) -> None:
        """Ask it to end; its answers so far are kept, and a later evaluation of the checkpoint goes on from there."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)


def metrics_of(document: Mapping[str, Any]) -> dict[str, float]:
    """Return what is logged of what `regrade evaluate` or `regrade trigger --wait` printed as JSON.

    Names are `regrade/<benchmark>/<metric>`; a verdict is `regrade/gate`, with 0 pass, 1 regression, 2 cannot tell.
    """
    rows = [
        {"benchmark": answers["benchmark"], **score["metrics"]}
        for answers in document.get("answer_sets", ())
        for score in answers["scores"]
        if score["headline"]
    ]
    found: dict[str, float] = {}
    for row in [*rows, *document.get("metrics", ())]:
        for name in _LOGGED:
            if isinstance(row.get(name), int | float):
                found[f"{PREFIX}/{row['benchmark']}/{name}"] = row[name]
    if document.get("gate"):
        found[f"{PREFIX}/gate"] = document["exit_code"]
    return found
