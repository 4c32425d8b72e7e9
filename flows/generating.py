"""From a job to published answers: shared by the flows that generate."""

import logging
import os
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from prefect.futures import PrefectFuture, wait
from pydantic import ValidationError

from regrade.answers.spool import spool_root
from regrade.engines.base import Engine
from regrade.errors import EngineError, OperationError, RegradeError, SettingsError, UserError
from regrade.generation import longest_requests, prompt_rendering
from regrade.job import GenerationJob
from regrade.reporting.display import Display
from regrade.reporting.results import AnswerSetResult
from regrade.validation import one_line
from tasks.generate import generate_missing, publish_seconds
from tasks.plan import find_missing, open_spool, plan_answers
from tasks.publish import publish
from tasks.work import Work

logger = logging.getLogger("regrade")


def make_job(**parameters: object) -> GenerationJob:
    """Return a job of a flow's parameters; those that are None are left to their defaults.

    Raises:
        SettingsError: If they do not fit together, in one line that names the parameter.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    try:
        return GenerationJob.model_validate(given)
    except ValidationError as error:
        raise SettingsError(one_line(error)) from error


def generate_all(job: GenerationJob, display: Display) -> list[Work]:
    """Generate what is missing of every answer set of a job, and publish it.

    Runs in the body of a flow, on the main thread: it owns the engine, which ends with this function however it
    ends. One engine serves all benchmarks. Whatever fails, what is there is published all the same. An engine that
    ended after it had answered is replaced once, as it may have been killed for want of memory or by a fault of the
    GPU; one that did not even load would not load the second time.

    Args:
        job: What to generate.
        display: Where progress is shown.
    """
    publish_seconds()  # a wrong setting is told before anything slow begins
    repository, plans = plan_answers(job)
    with ExitStack() as stack:
        works = [
            find_missing(plan, repository, stack.enter_context(open_spool(plan, repository)))
            for plan in plans
        ]
        futures: list[PrefectFuture[None]] = []
        todo = [work for work in works if work.missing]
        fresh = False
        while todo:
            before = len(futures)
            try:
                _generate(job, _engine(job, todo), todo, futures, display)
                break
            except (OperationError, UserError) as error:
                left = todo[len(futures) - before :]
                _publish_what_is_there(left)
                if fresh or not (isinstance(error, EngineError) and error.fresh_helps):
                    _publish_what_is_there([work for work in works if not work.missing])
                    wait(futures)
                    raise
                logger.warning("%s Going on once more, with a fresh engine.", error)
                fresh = True
                renewed = {
                    work.spool: find_missing(work.plan, repository, work.spool) for work in left
                }
                works = [renewed.get(work.spool, work) for work in works]
                todo = [work for work in renewed.values() if work.missing]
        futures += [publish.submit(work) for work in works if not work.missing]
        wait(futures)
        for future in futures:
            _published(future)
    return works


def _engine(job: GenerationJob, todo: list[Work]) -> Engine:
    return job.engine.open(
        todo[0].plan.model,
        longest=longest_requests((work.plan, work.missing) for work in todo),
        rendering=prompt_rendering(job.prompt),
        log=engine_log(),
    )


def _generate(
    job: GenerationJob,
    engine: Engine,
    todo: list[Work],
    futures: list[PrefectFuture[None]],
    display: Display,
) -> None:
    """Generate one answer set after the other; each is published while the next one is generated."""
    display.loading(job.model)
    with engine:
        display.loaded()
        logger.info(
            "%s is ready after %.1f s (%s %s on %s)",
            job.model,
            engine.info.load_seconds,
            engine.info.engine,
            engine.info.version or "",
            engine.info.device or "the server's device",
        )
        for work in todo:
            generate_missing(work, engine, job.engine, display)
            futures.append(publish.submit(work))


def _publish_what_is_there(works: list[Work]) -> None:
    """Publish answers from before a failure, which is what the caller goes on to raise."""
    for work in works:
        try:
            publish.with_options(retries=0)(work)
        except RegradeError as error:
            logger.warning(
                "%s: not published, the answers are kept in the spool: %s", work.title, error
            )


def _published(future: PrefectFuture[None]) -> None:
    try:
        future.result()
    except RegradeError:
        logger.error(  # noqa: TRY400 - the error itself is told once, at the end
            "not published. All answers are kept in %s: `regrade publish` goes on from there, without generating",
            spool_root(),
        )
        raise


def engine_log() -> Path:
    """Return a new file for the engine's own output."""
    folder = Path(os.environ.get("REGRADE_LOGS") or spool_root().with_name("logs"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"engine-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"


def generated_result(work: Work) -> AnswerSetResult:
    """Return the result of generating and publishing one answer set."""
    manifest = work.published.manifest if work.published else None
    revision = work.published.revision if work.published else None
    session = work.session
    return AnswerSetResult(
        benchmark=work.plan.specification.benchmark.name,
        model=work.plan.specification.model.name,
        answer_set_id=work.plan.specification.answer_set_id,
        revision=revision,
        url=work.repository.url(revision, work.published.folder)
        if work.published and revision
        else None,
        rows=manifest.rows if manifest else 0,
        expected_rows=work.plan.rows,
        generated=session.rows if session else 0,
        seconds={
            "load": work.load_seconds,
            "generate": work.generate_seconds,
            "publish": work.publish_seconds,
        },
        tokens_per_second=(
            session.completion_tokens / session.generate_seconds
            if session and session.generate_seconds
            else None
        ),
    )
