"""A process that evaluates checkpoints, and the metrics that it prints."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regrade.processes.supervised import SupervisedProcess
from regrade.settings.errors import OperationError

LOGS = "regrade-logs"
"""Name of the folder for logs of evaluations, in a training's output folder."""
_LOGGED = ("accuracy", "accuracy_stderr", "n", "unparsed", "truncated", "failed")
_VERDICTS = ("pass", "regression", "cannot tell")
GRACE = 15.0
"""Seconds from SIGTERM to SIGKILL: `regrade evaluate` ends within 6 s."""
_OF_A_RANK = re.compile(
    r"(TORCHELASTIC|ACCELERATE|FSDP|OMPI|PMI|PMIX|SLURM)_.*"
    r"|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)"
    r"|CROSS_(RANK|SIZE)|LOCAL_SIZE"  # deepspeed
    r"|PREFECT__.*"  # variables of the flow run in which the training runs, such as its id
)
"""Matches the environment variables that a launcher sets."""


class EvaluationFailedError(OperationError):
    """The evaluation of a checkpoint failed."""


def evaluation_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command of regrade that prints JSON."""
    return (sys.executable, "-m", "regrade.cli.main", *words, "--json")


class EvaluationProcess(SupervisedProcess):
    """The process that evaluates each checkpoint that comes. It ends with this process, even by SIGKILL.

    Finished answers are kept, and a later evaluation of a checkpoint continues from there.
    """

    def __init__(
        self, first: str, words: Sequence[str], changes: Mapping[str, str], log: Path
    ) -> None:
        """Start the command, without the variables that a launcher sets for a training's ranks: vLLM would use its address and rank.

        Args:
            first: Name of the checkpoint for which it is started.
            words: Words of a command of regrade, which prints a line when it begins and when it ends with a checkpoint.
            changes: Changes to this process's environment.
            log: File for its log, replaced if it exists. What it prints goes to a file of that name with the suffix `.json`.
        """
        self.running: str | None = None
        """Name of the checkpoint that is evaluated now; None if the process has not named one."""
        self._first: str | None = first
        """The first checkpoint, until the process names one."""
        self._log, self._printed, self._read = log, log.with_suffix(".json"), 0
        log.parent.mkdir(parents=True, exist_ok=True)
        for path in (log, self._printed):
            path.unlink(missing_ok=True)
        kept = {name: os.environ[name] for name in os.environ if not _OF_A_RANK.fullmatch(name)}
        command, environment = evaluation_command(words), {**kept, **changes}
        super().__init__(command, log, environment, grace=GRACE, output=self._printed)

    def outcomes(self) -> Iterator[tuple[str, Mapping[str, float], str | None]]:
        """Yield what became of checkpoints since the last call, also of the one at which the process ended: name, metrics, problem."""
        ended = self.has_ended()
        for document in self._documents():
            self.running, self._first = Path(document["model"]).name, None
            if document["ended"]:
                checkpoint, self.running = self.running, None
                metrics, error = metrics_of(document), document.get("error")
                if not metrics:
                    error = error or f"it has no result (log: '{self._log}')"
                yield checkpoint, metrics, error
        if ended and (left := self.running or self._first):
            lines = self._log.read_text(errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "the log is empty")
            yield left, {}, f"exit code {self.end()}: {last} (log: '{self._log}')"
            self.running = self._first = None

    def _documents(self) -> Iterator[dict[str, Any]]:
        with self._printed.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                with suppress(ValueError):
                    document = json.loads(line)
                    # The command's error has no model.
                    if isinstance(document, dict) and "model" in document:
                        yield document


def metrics_of(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics to log from a line of `regrade evaluate --follow --json`.

    Names are `regrade/<benchmark>/<metric>`. A verdict is `regrade/gate`: 0 pass, 1 regression, 2 cannot tell.
    """
    metrics: dict[str, float] = {
        f"regrade/{answers['benchmark']}/{name}": score["metrics"][name]
        for answers in document.get("answer_sets", ())
        for score in answers["scores"]
        if score["headline"]
        for name in _LOGGED
        if isinstance(score["metrics"].get(name), int | float)
    }
    if document.get("gate"):
        metrics["regrade/gate"] = _VERDICTS.index(document["gate"]["verdict"])
    return metrics
