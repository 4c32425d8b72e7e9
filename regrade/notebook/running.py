"""Run `regrade score` and `regrade evaluate` from a notebook, in a process of their own.

The process keeps an engine's memory and Prefect's event loop away from the notebook's, and ends when the notebook does.
"""

import os
import sys
import tempfile
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from regrade.engines.base import BaseEngineSettings
from regrade.jobs.job import EvaluationJob, ScoringJob
from regrade.processes.supervised import SupervisedProcess
from regrade.results.results import Evaluation
from regrade.settings import Settings
from regrade.settings.errors import OperationError, SettingsError
from regrade.settings.paths import from_this_folder, schema_of

GRACE = 40.0
"""Seconds in which an interrupted command keeps the answers that it has."""


def evaluate(model: str, benchmarks: Sequence[str] = (), **parameters: Any) -> Evaluation:  # noqa: ANN401
    """Evaluate a model: generate missing answers, publish, score and track them; progress goes to stderr.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a checkpoint's folder.
        benchmarks: Benchmarks; `lm_eval:TASK` is a task of lm-evaluation-harness.
        parameters: Other parameters of an evaluation (`regrade.jobs.job.EvaluationJob`), such as `limit`, `sampling`, `engine` or
            `answers`; None means the default.

    Raises:
        SettingsError: If a setting is wrong, or `follow` is given.
        OperationError: If something failed; answers generated so far are kept.
    """
    if parameters.get("follow") is not None:
        raise SettingsError(
            "`follow` gives each model's result when it is done, and a notebook gets one at the end. Leave it out, or run "
            "`regrade evaluate --follow` in a terminal."
        )
    return _run(
        "evaluate", EvaluationJob, {"model": model, "benchmarks": list(benchmarks)} | parameters
    )


def score(answers: str | None = None, **parameters: Any) -> Evaluation:  # noqa: ANN401
    """Score stored answers, publish and track the scores; without a model. Progress goes to stderr.

    Args:
        answers: Answer repository. None: `REGRADE_ANSWERS`, else the folder `answers`.
        parameters: Other parameters of a scoring (`regrade.jobs.job.ScoringJob`), such as `answer_set`, `model`, `scorer` or
            `stale`; None means the default.

    Raises:
        SettingsError: If the repository does not exist, or the scorer does not fit.
        OperationError: If something failed.
    """
    return _run("score", ScoringJob, {"answers": answers} | parameters)


def _plain(value: object) -> object:
    """Return a parameter as a YAML file has it: of settings the values that were set, so that all others stay the defaults."""
    if isinstance(value, Settings):
        kind = {"kind": value.kind} if isinstance(value, BaseEngineSettings) else {}
        return kind | value.model_dump(mode="json", exclude_unset=True)
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value


def _run(command: str, job: type[Settings], parameters: Mapping[str, object]) -> Evaluation:
    given = {name: _plain(value) for name, value in parameters.items()}
    given = {name: value for name, value in given.items() if value not in (None, [], {})}
    with tempfile.TemporaryDirectory(prefix="regrade-") as folder:
        config = Path(folder) / "parameters.yaml"
        schema = schema_of(job)
        given = from_this_folder(given, schema, root=schema)  # not from that of the file
        config.write_text(yaml.safe_dump(given, allow_unicode=True), encoding="utf-8")
        return _run_command([command, "--config", str(config)], Path(folder))


def _run_command(words: Sequence[str], folder: Path) -> Evaluation:
    log, output = folder / "log", folder / "output"
    command = [sys.executable, "-m", "regrade.cli.main", *words, "--json"]
    process = SupervisedProcess(command, log, os.environ, grace=GRACE, output=output)
    place = f" in '{words[-1]}'"  # of a setting in messages; it is none of the caller's files
    decoder = getincrementaldecoder("utf-8")("replace")
    text = ""
    try:
        with log.open("rb") as lines:
            ended = False
            while not ended:
                ended = process.has_ended(0.2)
                new = decoder.decode(lines.read(), final=ended).replace(place, "")
                sys.stderr.write(new)
                text += new
    finally:
        code = process.end()
    if code == 0:
        return Evaluation.model_validate_json(output.read_bytes())
    _, found, problem = text.rpartition("regrade: ")
    message = problem.strip() if found else f"`regrade {words[0]}` ended with code {code}."
    raise (SettingsError if code == 2 else OperationError)(message)
