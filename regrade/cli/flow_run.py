"""Run a flow in this process, show its progress on stderr, and return its result."""

import contextlib
import importlib
import json
import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO, TypeVar, cast

from pydantic import BaseModel

from regrade.cli.output import Output
from regrade.cli.terminal import TerminalDisplay, log_to, print_blocks, print_next_steps
from regrade.jobs.job import GenerationJob, ScoringJob
from regrade.jobs.plan import Plan
from regrade.jobs.plans_of_job import begin, checked_benchmarks, engine_begun, in_folders
from regrade.orchestration.configured import has_server
from regrade.orchestration.server import (
    PrefectGoneError,
    TemporaryServer,
    begun_server,
    flow_result,
    prefect_server,
)
from regrade.processes.importing import quick_imports
from regrade.processes.shutdown import exit_now
from regrade.results.display import shown_on
from regrade.results.results import Evaluation, SomeNotScoredError, SomeUnfitError
from regrade.settings import Settings
from regrade.settings.errors import OperationError, TrackingError
from regrade.settings.files import log_file
from regrade.settings.marks import parameters_of
from regrade.settings.project_folder import make_flows_importable
from regrade.text.blocks import Line
from regrade.tracking.connection import check_store, default_tracking_uri
from regrade.tracking.process import prepare

logger = logging.getLogger("regrade")
_R = TypeVar("_R")


def run_flow(
    name: str,
    kind: type[_R],
    job: Settings,
    output: Output,
    check: Callable[[], list[Plan] | None] | None = None,
    first: GenerationJob | None = None,
    verdicts: list[BaseModel] | None = None,
) -> _R:
    """Check what a flow is given, and run it on the configured Prefect server or a temporary one.

    While it is checked, processes may import what they will need, but nothing is started.

    Args:
        name: Module and function of the flow.
        kind: Type of its result.
        job: Its parameters, of which those that were set are given to it.
        check: Plans what the flow begins with, or refuses it. None: the function `begin` of the flow's module does.
        first: Job with which the flow begins, and whose engine is needed at once.
        verdicts: Gets the verdicts of the flow's gate.
        output: Form of the result on stdout; an evaluation that failed in part is printed before the error is raised.

    Raises:
        RegradeError: If the flow raises it, or the Prefect server cannot be used.
    """
    tracks = "tracking_uri" in parameters_of(type(job))
    if tracks:
        given = job.model_dump(include={"tracking_uri", "answers"})
        check_store(given["tracking_uri"] or default_tracking_uri(given["answers"]))
    begun = begun_server()
    log = log_file("regrade") if begun is None else begun.log
    log_to(log, quiet=output.quiet)
    display = TerminalDisplay(quiet=output.quiet)
    display.report = partial(_print_followed, output, sys.stdout)
    if verdicts is not None:
        display.verdicts = verdicts
    _printed.clear()
    if kind is Evaluation and not output.json:
        display.show_published = partial(_print_published, output, sys.stdout)

    def on_server() -> object:
        # Scoring ends before its first heartbeat is due.
        heartbeats = name != "score_answers"
        temporary = None if has_server() else begun or TemporaryServer(log)
        with contextlib.ExitStack() as stack:
            engine_begins = False

            def begin_engine(plans: list[Plan] | None) -> bool:
                if first is None:
                    return False
                return stack.enter_context(engine_begun(first, log_file("engine"), plans))

            with contextlib.nullcontext() if temporary is None else temporary.ended_by_error():
                if check is None:
                    _function(name, "begin")(job)
                elif first is None or in_folders(first):
                    engine_begins = begin_engine(check())
                else:  # its engine is imported while the Hub is asked, which takes its time to answer
                    begin(checked_benchmarks, first)
                    engine_begins = begin_engine(None)
                    check()
            if temporary is not None:
                temporary.start()
            if tracks and not engine_begins:
                prepare(log)
            flow = _function(name, name)
            with prefect_server(temporary, heartbeats=heartbeats):
                if tracks:  # with an engine, MLflow is needed last
                    prepare(log)
                return flow_result(flow, job.model_dump(exclude_unset=True))

    try:
        # Output of libraries must not mix with the JSON on stdout.
        with contextlib.redirect_stdout(sys.stderr), display.shown(), shown_on(display):
            if name == "score_answers" and not has_server():
                prepare(log)
                # A temporary Prefect server would take longer than the scoring.
                result: object = _function("scoring", "score_stored")(job)
            else:
                result = on_server()
    except PrefectGoneError as error:
        if display.evaluation is None:
            raise
        logger.warning("the result is complete, but its page in Prefect is not: %s", error.problem)
        print_result(display.evaluation, output, job)
        exit_now(0)
    except (OperationError, SomeUnfitError) as error:
        if display.evaluation is not None:
            print_result(display.evaluation, output, job)
        if isinstance(error, TrackingError) and display.evaluation is not None:
            logger.info(
                "answers and scores are published; `regrade score --answers %s` tracks them when MLflow is back",
                display.evaluation.repository,
            )
        if not isinstance(error, SomeNotScoredError | SomeUnfitError):
            logger.info("the log with the output of all libraries: %s", log)
        raise
    if not isinstance(result, kind):
        raise TypeError(f"flow '{name}' returned {type(result).__name__}, expected {kind.__name__}")
    return result


_printed: set[tuple[str, ...]] = set()
"""Answer sets of the results that this command printed before they were tracked."""


def print_result(evaluation: Evaluation, output: Output, job: Settings | None = None) -> None:
    """Print an evaluation on stdout, and what can be done next on stderr, after the `job` that was asked for.

    Of a result that was printed before it was tracked, only where the time went is printed.
    """

    def draw() -> None:
        if _key(evaluation) not in _printed:
            _draw(evaluation)
        elif evaluation.time_spent is not None:
            print_blocks(list(evaluation.time_spent.blocks()))
        if evaluation.answer_sets:
            print_next_steps(evaluation, job if isinstance(job, ScoringJob) else None)

    output.show(evaluation, draw)


def _print_published(output: Output, stdout: TextIO, evaluation: Evaluation) -> None:
    """Print an evaluation before it is tracked, without where the time went, which is not known yet."""
    with contextlib.redirect_stdout(stdout):
        output.show(evaluation, lambda: _draw(evaluation.model_copy(update={"time_spent": None})))
        sys.stdout.flush()
    _printed.add(_key(evaluation))


def _key(evaluation: Evaluation) -> tuple[str, ...]:
    return tuple(answers.answer_set_id for answers in evaluation.answer_sets)


def _draw(evaluation: Evaluation) -> None:
    if evaluation.answer_sets:
        from regrade.results.page import blocks  # noqa: PLC0415 - only needed for a result

        print_blocks(blocks(evaluation))


def _print_followed(
    output: Output,
    stdout: TextIO,
    model: str,
    evaluation: Evaluation | None,
    error: str | None,
    ended: bool,
) -> None:
    """Print the beginning or the result of a model that came: a line of JSON, or at its end a table, and what failed."""
    with contextlib.redirect_stdout(stdout):
        if output.json:
            found = {} if evaluation is None else json.loads(evaluation.model_dump_json())
            output.show_line({"model": model, "ended": ended, "error": error, **found})
            return
        if evaluation is not None:
            print_result(evaluation, output)
        if error is not None:
            print_blocks([Line(f"{model}: {error}", "bad")])


def _function(module: str, name: str) -> Callable[..., Any]:
    """Import a flow. Importing Prefect sets up its logging, so that ours must be set up before."""
    make_flows_importable()
    with quick_imports():
        return cast("Callable[..., Any]", getattr(importlib.import_module(f"flows.{module}"), name))
