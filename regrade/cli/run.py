"""`regrade evaluate`, `generate` and `score`: run a flow in this process."""

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, cast

from cyclopts import Parameter

from regrade.cli.checking import check_generation, checked_job
from regrade.cli.generation_options import GenerationOptions
from regrade.cli.options import (
    WHAT,
    Answers,
    MetricsPort,
    PriceInput,
    PriceOutput,
    Processes,
    Sandbox,
    TrackingUri,
    price_of,
    scoring_options,
)
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import TerminalDisplay, log_to, print_evaluation, print_next_steps
from regrade.jobs.job import EvaluationJob, GenerationJob, JudgeSettings, ScoringJob, make_job
from regrade.jobs.stored_sets import choose_sets
from regrade.orchestration.configured import has_server
from regrade.orchestration.server import PrefectGoneError, flow_result, prefect_server
from regrade.processes.importing import quick_imports
from regrade.processes.metrics_endpoint import PORT_VARIABLE, ports
from regrade.processes.shutdown import exit_now
from regrade.results.display import log_file, shown_on
from regrade.results.results import Evaluation, SomeNotScoredError, SomeUnfitError
from regrade.settings.errors import OperationError, SettingsError, TrackingError
from regrade.settings.project_folder import make_flows_importable
from regrade.tracking.process import prepare

logger = logging.getLogger("regrade")


def evaluate(
    options: GenerationOptions | None = None,
    *,
    scorer: Annotated[str | None, Parameter(group=WHAT)] = None,
    judge: Annotated[tuple[str, ...], Parameter(group=WHAT, negative=())] = (),
    rubric: Annotated[str | None, Parameter(group=WHAT)] = None,
    sandbox: Sandbox = None,
    processes: Processes = None,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
    tracking_uri: TrackingUri = None,
    metrics_port: MetricsPort = None,
    output: Output = TABLE,
) -> None:
    """Evaluate a model: generate missing answers, publish, score and track them.

    Args:
        scorer: Scorer, or a function in a file (`path/to/file.py:name`); the scorers of each benchmark if not given.
        judge: Model that grades the answers afterwards, with vLLM on this machine; `judge:` in the `--config` file has all
            settings. May be given several times.
        rubric: Rubric of the judge: `accuracy_style`, `correct`, or a Jinja file; the benchmark's if not given.
    """
    options = options or GenerationOptions()
    chosen = options.parameters()
    if scorer is not None:
        chosen["scorer"] = scorer
    judged = {"judges": judge or None, "rubric": rubric}
    if given := {name: value for name, value in judged.items() if value is not None}:
        chosen["judge"] = {**(chosen.get("judge") or {}), **given}
    if price := price_of(price_input, price_output):
        chosen["price"] = price
    if scoring := scoring_options(sandbox, processes):
        chosen["scoring"] = {**(chosen.get("scoring") or {}), **scoring}
    if tracking_uri is not None:
        chosen["tracking_uri"] = tracking_uri
    job = checked_job(EvaluationJob, chosen, options.config)
    check_generation(job)
    if job.judge is not None:
        _check_judge(job.judge, job.names)
    _serve_metrics(metrics_port)
    run_flow("evaluate_model", chosen, output)


def generate(
    options: GenerationOptions | None = None,
    *,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
    metrics_port: MetricsPort = None,
    output: Output = TABLE,
) -> None:
    """Generate and publish missing answers, without scoring them."""
    options = options or GenerationOptions()
    chosen = options.parameters()
    for name in (
        "tracking_uri",
        "scorer",
        "scoring",
        "machines",
        "judge",
    ):  # a file may serve both commands
        chosen.pop(name, None)
    if price := price_of(price_input, price_output):
        chosen["price"] = price
    check_generation(checked_job(GenerationJob, chosen, options.config))
    _serve_metrics(metrics_port)
    run_flow("generate_answers", chosen, output)


def score(
    *,
    answers: Answers = None,
    model: str | None = None,
    benchmark: str | None = None,
    answer_set: str | None = None,
    revision: str | None = None,
    scorer: str | None = None,
    since: str | None = None,
    until: str | None = None,
    stale: bool = False,
    intact: bool = False,
    force: bool = False,
    source: tuple[str, ...] = (),
    sandbox: Sandbox = None,
    processes: Processes = None,
    lm_eval_path: str | None = None,
    tracking_uri: TrackingUri = None,
    output: Output = TABLE,
) -> None:
    """Score stored answers at one pinned commit, without a model.

    Args:
        model: Only this model.
        benchmark: Only this benchmark.
        answer_set: Only this answer set; the first digits of its id are enough.
        revision: Branch, tag or commit of the repository; the newest commit if not given.
        scorer: Scorer, or a function in a file (`path/to/file.py:name`); the scorers of each benchmark if not given.
        since: Only answer sets that grew on this day (YYYY-MM-DD, UTC) or later.
        until: Only answer sets that were begun on this day (YYYY-MM-DD, UTC) or earlier.
        stale: Replace only stale scores: the scorer changed since, or the answer set grew.
        intact: Skip damaged shards instead of refusing their answer set; such scores are marked.
        force: Score again even if this version of the scorer has scored the answers before.
        source: `BENCHMARK=PATH`: file or folder from which the questions came, for benchmarks whose tests are too large to
            be stored with the answers.
        lm_eval_path: Folder with yaml files of your own tasks of lm-evaluation-harness.
    """
    parameters = {
        name: value
        for name, value in locals().items()
        if name not in ("output", "sandbox", "processes", "source", "lm_eval_path")
    }
    if scoring := scoring_options(sandbox, processes, source, lm_eval_path):
        parameters["scoring"] = scoring
    days = {"since": _day("--since", since), "until": _day("--until", until)}
    job = checked_job(ScoringJob, parameters | days)
    choose_sets(job)  # refuses a missing repository before Prefect is imported
    run_flow("score_answers", job.model_dump(exclude_unset=True), output)


def _check_judge(judge: JudgeSettings, benchmarks: Sequence[str]) -> None:
    from regrade.judging.choosing import check_asking  # noqa: PLC0415 - few evaluations have a judge

    check_asking(
        judge.rubric, benchmarks, judge.prompt, baseline=judge.baseline, criteria=judge.criteria
    )


def _serve_metrics(port: int | None) -> None:
    """Set the port of the metrics; the flow begins to serve them once it has planned."""
    if port is not None:
        if not 0 <= port <= 65535:
            raise SettingsError(f"`--metrics-port {port}` should be a port from 1 to 65535.")
        os.environ[PORT_VARIABLE] = str(port)
    ports()  # fails early if the setting is invalid


def _day(option: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(
            f"`{option} {text}` should be a day, such as `{option} 2026-11-30`."
        ) from error


def run_flow(name: str, parameters: dict[str, Any], output: Output) -> None:
    """Run a flow and print its result."""
    log = log_file("regrade")
    log_to(log, quiet=output.quiet)
    if name != "generate_answers":
        prepare(log)
    display = TerminalDisplay(quiet=output.quiet)
    try:
        # Output of libraries must not mix with the JSON on stdout.
        with contextlib.redirect_stdout(sys.stderr), display.shown(), shown_on(display):
            if name == "score_answers" and not has_server():
                evaluation = _score_here(parameters)
            else:
                evaluation = _run_flow(name, parameters, log)
    except PrefectGoneError as error:
        if display.evaluation is None:
            raise
        logger.warning("the result is complete, but its page in Prefect is not: %s", error.problem)
        _print(display.evaluation, output)
        exit_now(0)
    except (OperationError, SomeUnfitError) as error:
        if display.evaluation is not None:
            _print(display.evaluation, output)
        if isinstance(error, TrackingError) and display.evaluation is not None:
            logger.info(
                "answers and scores are published; `regrade score --answers %s` tracks them when MLflow is back",
                display.evaluation.repository,
            )
        if not isinstance(error, SomeNotScoredError | SomeUnfitError):
            logger.info("the log with the output of all libraries: %s", log)
        raise
    _print(evaluation, output)


def _run_flow(name: str, parameters: dict[str, Any], log: Path) -> Evaluation:
    # Scoring ends before its first heartbeat is due.
    heartbeats = name != "score_answers"
    with prefect_server(log, meanwhile=lambda: _flow(name), heartbeats=heartbeats):
        return flow_result(_flow(name), parameters)


def _score_here(parameters: dict[str, Any]) -> Evaluation:
    """Score without a flow run: a temporary Prefect server would take longer than the scoring."""
    make_flows_importable()
    with quick_imports():
        score_stored = importlib.import_module("flows.scoring").score_stored
    return cast("Evaluation", score_stored(make_job(ScoringJob, parameters)))


def _flow(name: str) -> Callable[..., Evaluation]:
    """Import a flow. Importing Prefect sets up its logging, so that ours must be set up before."""
    make_flows_importable()
    with quick_imports():
        module = importlib.import_module(f"flows.{name}")
    return cast("Callable[..., Evaluation]", getattr(module, name))


def _print(evaluation: Evaluation, output: Output) -> None:
    def draw() -> None:
        if evaluation.answer_sets:
            print_evaluation(evaluation)
            print_next_steps(evaluation)

    output.show(evaluation, draw)
