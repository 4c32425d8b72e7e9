"""Plan, generate and publish the answers of a job (`generate-answers`, `evaluate-model`)."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from prefect.futures import wait
from prefect.runtime import flow_run

from regrade.answers.sets import AnswerSet
from regrade.answers.spool import spool_root
from regrade.errors import EngineError, OperationError, RegradeError, SettingsError, UserError
from regrade.generation import prompt_rendering
from regrade.job import GenerationJob
from regrade.reporting.display import current_display, log_file
from tasks.generate import generate_missing, publish_seconds
from tasks.plan import find_missing, plan_answers
from tasks.publish import publish_answers
from tasks.work import Work

logger = logging.getLogger("regrade")

GENERATION_FORM: dict[str, dict[str, Any]] = {
    "model": {"minLength": 1},
    "limit": {"title": "Questions per benchmark", "minimum": 1},
    "answers": {"title": "Answer repository"},
    "repeats": {"title": "Answers per question", "minimum": 1},
    "datasets": {"title": "Benchmarks of your own"},
    "sources": {"title": "Questions from files"},
}
"""JSON schema of form fields, in addition to their types."""


def run_name() -> str:
    """Name of the flow run: `<model>: <benchmarks>`; a folder is shortened to its last two parts."""
    parameters = flow_run.parameters
    names = list(parameters.get("benchmarks") or [])
    datasets = parameters.get("datasets") or []
    names += [entry["name"] if isinstance(entry, dict) else entry.name for entry in datasets]
    model = str(parameters["model"])
    if Path(model).is_absolute():
        model = "/".join(Path(model).parts[-2:])
    return f"{model}: {', '.join(names)}" if names else model


@contextmanager
def plan(job: GenerationJob) -> Iterator[list[Work]]:
    """Plan the answer sets of a job; their spools are open and locked while the block runs."""
    publish_seconds()  # fails early if the setting is invalid
    works = plan_answers(job)
    with ExitStack() as stack:
        for work in works:
            stack.enter_context(work.spool)
            find_missing(work)
        yield works


def generate(job: GenerationJob, works: Sequence[Work]) -> None:
    """Generate missing answers; each answer set is published while the next one is generated.

    Must run on the main thread: it owns the engine and stops it on any exit. One engine serves all benchmarks. On
    failure, finished answers are published before the error is raised. An engine that ended after its first answer is
    replaced once, because the cause may have been temporary (out of memory, GPU fault); a failed load is not retried.
    """
    todo = [work for work in works if work.requests]
    retrying = False
    while todo:
        try:
            _generate(job, todo)
            return
        except (OperationError, UserError) as error:
            left = [work for work in todo if work.publishing is None]
            _publish_finished(left)
            if retrying or not (isinstance(error, EngineError) and error.fresh_helps):
                _publish_finished([work for work in works if not work.requests])
                wait([work.publishing for work in works if work.publishing is not None])
                raise
            logger.warning("%s Retrying once with a new engine.", error)
            retrying = True
            for work in left:
                find_missing(work)
            todo = [work for work in left if work.requests]


def publish(works: Sequence[Work]) -> list[AnswerSet]:
    """Publish all answer sets that are not being published yet, wait for all, and return those that exist.

    Raises:
        RegradeError: If an answer set could not be published; its answers stay in the spool.
    """
    futures = [work.publishing or publish_answers.submit(work) for work in works]
    wait(futures)
    try:
        for future in futures:
            future.result()
    except RegradeError:
        logger.error(  # noqa: TRY400 - the error itself is reported at the end
            "not published. All answers are kept in %s; `regrade publish` publishes them without generating",
            spool_root(),
        )
        raise
    return [work.published for work in works if work.published is not None]


def _generate(job: GenerationJob, todo: Sequence[Work]) -> None:
    engine = job.engine.open(
        todo[0].plan.model,
        requests=[work.requests for work in todo],
        rendering=prompt_rendering(job.prompt),
        log=log_file("engine"),
    )
    display = current_display()
    display.loading(job.model)
    with engine:
        display.loaded()
        check_dtype(engine.info.dtype, todo)
        logger.info(
            "%s is ready after %.1f s (%s %s on %s)",
            job.model,
            engine.info.load_seconds,
            engine.info.engine,
            engine.info.version or "",
            engine.info.device or "the server's device",
        )
        for work in todo:
            generate_missing(work, engine, job.engine)
            work.publishing = publish_answers.submit(work)


def check_dtype(dtype: str | None, works: Sequence[Work]) -> None:
    """Refuse to continue answers that were computed in another precision: they would not be one model's answers.

    Raises:
        SettingsError: If an earlier session of an answer set has another dtype.
    """
    for work in works:
        earlier = {session.dtype for session in work.sessions} - {None, dtype}
        if dtype is not None and earlier:
            raise SettingsError(
                f"{work.title}: its answers so far were computed in {min(map(str, earlier))}, this engine computes in "
                f"{dtype}. Set `--engine.dtype {min(map(str, earlier))}`, or `--fresh` to generate all anew."
            )


def _publish_finished(works: Sequence[Work]) -> None:
    """Publish the answers that were finished before a failure; only warn if that fails too."""
    for work in works:
        try:
            publish_answers.with_options(retries=0)(work)
        except RegradeError as error:
            logger.warning(
                "%s: not published, the answers are kept in the spool: %s", work.title, error
            )
