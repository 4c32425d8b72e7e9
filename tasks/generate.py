"""Generate the missing answers of an answer set into its spool; publish and report progress meanwhile."""

import logging
import os
import re
from typing import cast
from uuid import UUID

import httpx
from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import PrefectException

from regrade.answers.origin import note_speed
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet, find_set
from regrade.engines.base import BaseEngineSettings, Engine, MeasuredEngine
from regrade.jobs.generate import Progress, generate, session_of
from regrade.jobs.shares import publish_interval
from regrade.processes.repeating import RepeatingThread
from regrade.results.display import current_display
from regrade.settings import GoodputLimits
from regrade.settings.errors import OperationError, SettingsError, UserError
from regrade.stats.speed import GoodputCount, Speed
from regrade.text.text import duration_text
from tasks.work import Work, check_computed

logger = logging.getLogger("regrade.generate")

PUBLISH_SECONDS = 60.0
"""Seconds between two commits; the Hub allows about 128 commits per hour and account."""
PUBLISH_VARIABLE = "REGRADE_PUBLISH_SECONDS"
"""Environment variable that overrides `PUBLISH_SECONDS`."""
REPORT_SECONDS = 3.0
"""Seconds between two progress reports to Prefect."""
REPORT_PATIENCE = 5.0
"""Timeout of the last progress report, in seconds."""


@task(name="generate", task_run_name="generate {work.title}", cache_policy=NO_CACHE)
def generate_missing(
    work: Work,
    engine: Engine,
    settings: BaseEngineSettings,
    goodput: GoodputLimits | None = None,
) -> None:
    """Generate missing answers; rows are on disk before the progress counts them.

    Must run on the main thread, in the flow that owns the engine. Rows are published every minute; if that fails, they
    stay in the spool until the next attempt. Generating waits neither for the Hub nor for the Prefect server.
    """
    display = current_display()
    progress = Progress(work.plan.rows)
    work.live, work.load_seconds = None, engine.info.load_seconds
    work.measured = engine if isinstance(engine, MeasuredEngine) else None
    artifact = ProgressArtifact(work)

    def publish() -> None:
        try:
            published = publish_answers(
                work.repository, work.spool, work.plan.description, only_new=True
            )
            if published is not None:
                work.count_commit(published=True)
            leave_out_published(work, published)
        except (OperationError, UserError) as error:
            work.count_commit(published=False)
            logger.warning("not published yet, the answers are kept in the spool: %s", error)

    def advance(now: Progress) -> None:
        nonlocal progress
        progress = work.live = now
        display.advance(work.title, now)

    seconds = publish_seconds(1 if work.share is None else work.share.of)
    # Machines that begin together do not commit together.
    first = None if work.share is None else seconds * work.share.number / work.share.of
    try:
        leave_out_published(work)  # loading, or another benchmark, took minutes
    except (OperationError, UserError) as error:
        logger.warning("what other machines published is left out later: %s", error)
    session = session_of(engine, settings, day=work.requests.day, mixed=work.mixed)
    work.begin(session)

    def note_learned() -> None:
        """Store with the session what a server showed with its first answer."""
        nonlocal session
        if engine.info.computed != session.computed:
            check_computed(engine.info, [work])
            session = session.model_copy(
                update={"computed": engine.info.computed, "mixed": work.mixed}
            )
            work.begin(session)

    with (
        RepeatingThread(seconds, publish, "publish", first=first),
        RepeatingThread(
            REPORT_SECONDS,
            lambda: artifact.update(progress),
            "report",
            patience=REPORT_PATIENCE,
            last=lambda: artifact.update(progress),
            failed=lambda: artifact.update(progress, stopped=True),
        ),
    ):
        count = None if goodput is None else GoodputCount(goodput)
        progress = generate(work.requests, engine, work.spool, advance, count, note_learned)
    display.advance(work.title, progress)
    work.progress = work.live = progress
    work.speed = None if work.measured is None else work.measured.speed
    if count is not None:
        speed = work.speed or Speed(measured_by="client")
        work.speed = speed.model_copy(update={"goodput": count.result(progress.seconds)})
    if work.speed is not None:
        note_speed(work.spool, str(session.id), work.speed)
    work.generate_seconds = progress.seconds
    logger.info(
        "%s: %d answers in %.1f s, %.0f tokens/s%s",
        work.title,
        progress.new,
        progress.seconds,
        progress.tokens_per_second,
        "".join(
            f", {count} {word}"
            for count, word in ((progress.failed, "failed"), (progress.refused, "refused"))
            if count
        ),
    )


def leave_out_published(work: Work, published: AnswerSet | None = None) -> None:
    """Withdraw the requests whose rows other machines have published, if there are others.

    Args:
        work: The answer set.
        published: It at the head, if that was just read.

    Raises:
        OperationError, UserError: If the repository cannot be read.
    """
    if work.share is None:
        return
    if published is None:
        repository = work.repository
        published = find_set(repository, work.plan.specification, repository.head())
    if published is not None:
        work.requests.withdraw(published.states(work.spool.shard_states).done)


def publish_seconds(machines: int = 1) -> float:
    """Seconds between two commits while generating: REGRADE_PUBLISH_SECONDS, or one minute, or more for many machines.

    Args:
        machines: Machines that publish to the same repository.

    Raises:
        SettingsError: If the variable is not a number above 0.
    """
    text = os.environ.get(PUBLISH_VARIABLE)
    if not text:
        return publish_interval(machines, PUBLISH_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise SettingsError(f"{PUBLISH_VARIABLE}={text} should be a number of seconds above 0.")
    return seconds


class ProgressArtifact:
    """Progress on the flow run's page: percentage, number of answers, speed and time left."""

    def __init__(self, work: Work) -> None:
        specified = work.plan.specification
        name = f"progress-{specified.benchmark.name}-{specified.answer_set_id}"
        self._key = re.sub(r"[^a-z0-9]", "-", name.lower())
        self._title = work.title
        self._id: UUID | None = None

    def update(self, progress: Progress, *, stopped: bool = False) -> None:
        """Show the progress; only warn if the Prefect server fails.

        Args:
            progress: Finished answers and speed.
            stopped: The run was cancelled or failed, so that no time is left.
        """
        left = progress.seconds_left
        time_left = "" if left is None or progress.finished else f", {duration_text(left)} left"
        # Changing numbers first, because the page shows only the beginning.
        done = f"{progress.done:,} of {progress.total:,} answers"
        description = (
            f"{done}{time_left}, {progress.tokens_per_second:,.0f} tokens/s: {self._title}"
        )
        if stopped:
            description = f"{done}, stopped: they are kept. Submit the same form again for the rest: {self._title}"
        percent = 100.0 * progress.done / progress.total
        try:
            if self._id is None:
                created = create_progress_artifact(percent, key=self._key, description=description)
                self._id = cast("UUID", created)  # a coroutine only in an event loop
            else:
                update_progress_artifact(self._id, percent, description=description)
        except (httpx.HTTPError, PrefectException) as error:
            logger.warning("progress not shown in Prefect: %s", error)
