"""Run `regrade score` and `regrade evaluate` from a notebook, in a process of their own.

The process keeps an engine's memory and Prefect's event loop away from the notebook's, and ends when the notebook does.
"""

import os
import sys
import tempfile
from codecs import getincrementaldecoder
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from regrade.engines.base import BaseEngineSettings
from regrade.processes.supervised import SupervisedProcess
from regrade.results.results import Evaluation
from regrade.settings import (
    DatasetBenchmark,
    PromptSettings,
    SamplingSettings,
    ScoringOptions,
    Settings,
)
from regrade.settings.errors import OperationError, SettingsError

GRACE = 40.0
"""Seconds in which an interrupted command keeps the answers that it has."""


def evaluate(
    model: str,
    benchmarks: Sequence[str] = (),
    *,
    answers: str | None = None,
    limit: int | None = None,
    repeats: int | None = None,
    sampling: SamplingSettings | None = None,
    prompt: PromptSettings | None = None,
    engine: BaseEngineSettings | None = None,
    datasets: Sequence[DatasetBenchmark] = (),
    scorer: str | None = None,
    scoring: ScoringOptions | None = None,
    tracking_uri: str | None = None,
) -> Evaluation:
    """Evaluate a model: generate missing answers, publish, score and track them; progress goes to stderr.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a checkpoint's folder.
        benchmarks: Benchmarks; `lm_eval:TASK` is a task of lm-evaluation-harness.
        answers: Answer repository. None: `REGRADE_ANSWERS`, else the folder `answers`.
        limit: Number of questions of each benchmark. None: all.
        repeats: Answers to each question. None: the benchmark's number.
        sampling: Decoding settings. None: the defaults.
        prompt: Changes to the prompts. None: none.
        engine: Engine. None: vLLM on this machine.
        datasets: Further benchmarks from any dataset.
        scorer: Scorer. None: those of each benchmark.
        scoring: Sandbox and processes of scorers that need them. None: the defaults.
        tracking_uri: MLflow server or database. None: the default.

    Raises:
        SettingsError: If a setting is wrong.
        OperationError: If something failed; answers generated so far are kept.
    """
    parameters: dict[str, Any] = {"model": model}
    given: dict[str, Any] = {
        "benchmark": list(benchmarks),
        "answers": answers,
        "limit": limit,
        "repeats": repeats,
        "sampling": _given(sampling),
        "prompt": _given(prompt),
        "datasets": [_given(dataset) for dataset in datasets],
        "scorer": scorer,
        "scoring": _given(scoring),
        "tracking_uri": tracking_uri,
    }
    if engine is not None:
        given["engine"] = {"kind": getattr(engine, "kind", None)} | _given(engine)
    parameters |= {name: value for name, value in given.items() if value not in (None, [], {})}
    with tempfile.TemporaryDirectory(prefix="regrade-") as folder:
        config = Path(folder) / "evaluation.yaml"
        names = parameters.pop("benchmark", [])
        config.write_text(yaml.safe_dump(parameters, allow_unicode=True), encoding="utf-8")
        options = [word for name in names for word in ("--benchmark", name)]
        return _run(["evaluate", "--config", str(config), *options], Path(folder))


def score(
    answers: str | None = None,
    *,
    answer_set: str | None = None,
    model: str | None = None,
    benchmark: str | None = None,
    scorer: str | None = None,
    stale: bool = False,
    force: bool = False,
    scoring: ScoringOptions | None = None,
    tracking_uri: str | None = None,
) -> Evaluation:
    """Score stored answers, publish and track the scores; without a model. Progress goes to stderr.

    Args:
        answers: Answer repository. None: `REGRADE_ANSWERS`, else the folder `answers`.
        answer_set: Only this answer set; the first digits of its id are enough.
        model: Only this model.
        benchmark: Only this benchmark.
        scorer: Scorer, or a function in a file (`path/to/file.py:name`). None: the scorers of each benchmark.
        stale: Replace only stale scores.
        force: Score again even if this version of the scorer has scored the answers.
        scoring: Sandbox, processes and files of scorers that need them. None: the defaults.
        tracking_uri: MLflow server or database. None: the default.

    Raises:
        SettingsError: If the repository does not exist, or the scorer does not fit.
        OperationError: If something failed.
    """
    named = {
        "--answers": answers,
        "--answer-set": answer_set,
        "--model": model,
        "--benchmark": benchmark,
        "--scorer": scorer,
        "--tracking-uri": tracking_uri,
    }
    words = [word for name, value in named.items() if value is not None for word in (name, value)]
    words += _scoring_words(scoring or ScoringOptions())
    words += ["--stale"] * stale + ["--force"] * force
    with tempfile.TemporaryDirectory(prefix="regrade-") as folder:
        return _run(["score", *words], Path(folder))


def _scoring_words(scoring: ScoringOptions) -> list[str]:
    """Return the options of `regrade score` for settings that were set."""
    words = [
        word
        for source in scoring.sources
        for word in ("--source", f"{source.benchmark}={source.path}")
    ]
    names = {"sandbox": "--sandbox", "processes": "--processes", "lm_eval_path": "--lm-eval-path"}
    for name, option in names.items():
        if name in scoring.model_fields_set and (value := getattr(scoring, name)) is not None:
            words += [option, str(value)]
    return words


def _given(settings: Settings | None) -> dict[str, Any]:
    """Return the values that were set, so that all others stay the defaults."""
    return {} if settings is None else settings.model_dump(mode="json", exclude_unset=True)


def _run(words: Sequence[str], folder: Path) -> Evaluation:
    log, output = folder / "log", folder / "output"
    command = [sys.executable, "-m", "regrade.cli.main", *words, "--json"]
    process = SupervisedProcess(command, log, os.environ, grace=GRACE, output=output)
    decoder = getincrementaldecoder("utf-8")("replace")
    text = ""
    try:
        with log.open("rb") as lines:
            ended = False
            while not ended:
                ended = process.has_ended(0.2)
                new = decoder.decode(lines.read(), final=ended)
                sys.stderr.write(new)
                text += new
    finally:
        code = process.end()
    if code == 0:
        return Evaluation.model_validate_json(output.read_bytes())
    _, found, problem = text.rpartition("regrade: ")
    message = problem.strip() if found else f"`regrade {words[0]}` ended with code {code}."
    raise (SettingsError if code == 2 else OperationError)(message)
