"""Generate the missing answers of answer sets into their spools; publish and report progress meanwhile."""

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from threading import Lock
from typing import cast
from uuid import UUID

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import task_run

from regrade.answers.origin import note
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet, find_set
from regrade.engines.base import BaseEngineSettings, Engine, MeasuredEngine
from regrade.jobs.generate import Filling, Progress, fill, session_of
from regrade.jobs.shares import publish_seconds
from regrade.orchestration.optional import optional
from regrade.processes.repeating import RepeatingThread
from regrade.results.display import current_display
from regrade.settings import GoodputLimits
from regrade.settings.errors import OperationError, RegradeError, UserError
from regrade.stats.speed import GoodputCount, Speed
from regrade.text.text import counted, duration_text
from tasks.work import Work, check_computed

logger = logging.getLogger("regrade.generate")

LOOK_SECONDS = 0.5
"""Seconds between two looks whether the verdict on a benchmark is sure."""
REPORT_SECONDS = 3.0
"""Seconds between two progress reports to Prefect."""
REPORT_PATIENCE = 5.0
"""Timeout of the last progress report, in seconds."""


def run_name() -> str:
    """Name of the task run: its answer set, or the number of them."""
    works = task_run.parameters["works"]
    return f"generate {works[0].title if len(works) == 1 else f'{len(works)} answer sets'}"


@task(name="generate", task_run_name=run_name, cache_policy=NO_CACHE)
def generate_missing(
    works: Sequence[Work],
    engine: Engine,
    settings: BaseEngineSettings,
    goodput: GoodputLimits | None = None,
    on_complete: Callable[[Work], None] = lambda _: None,
) -> None:
    """Generate missing answers of answer sets in one stream; rows are on disk before the progress counts them.

    Must run on the main thread, in the flow that owns the engine. Every minute, the rows of a set are published; if that fails,
    they stay in the spool until the next attempt. Generating waits neither for the Hub nor for the Prefect server.

    Args:
        works: Answer sets with missing answers, all of one share.
        engine: The loaded engine.
        settings: Its settings.
        goodput: Limits of latencies within which answers are counted.
        on_complete: Called when no answer of a set is missing any more, while the others are generated.
    """
    share = works[0].share
    seconds = publish_seconds(1 if share is None else share.of)
    # Machines that begin together do not commit together.
    first = None if share is None else seconds * share.number / share.of
    sets = [_Set(work, engine, settings, goodput, len(works)) for work in works]
    open_ = [*sets]

    def in_engine(number: int) -> int:
        """Count the engine's requests to the first set that lacks answers: they are sent in order."""
        asked = next((found for found in open_ if found.work.stopped is None), None)
        if asked is not sets[number] or not isinstance(engine, MeasuredEngine):
            return 0
        return engine.unanswered

    def publish() -> None:
        """Publish the set with most rows on disk, so that several sets make no more commits than one."""
        by_rows = sorted(open_, key=lambda generated: generated.work.spool.rows)
        for generated in by_rows[-1:]:
            generated.publish()
        for generated in by_rows[:-1]:
            generated.leave_out()

    def look() -> None:
        for generated in [*open_]:
            generated.look()

    def report(*, stopped: bool = False) -> None:
        for generated in sets:
            generated.report(stopped=stopped)

    def complete(number: int) -> None:
        open_.remove(sets[number])
        sets[number].complete()
        on_complete(works[number])

    for number, work in enumerate(works):
        work.in_engine = partial(in_engine, number)
    watched = any(work.watch is not None for work in works)
    with (
        RepeatingThread(seconds, publish, "publish", first=first),
        RepeatingThread(LOOK_SECONDS, look, "look for a verdict") if watched else nullcontext(),
        RepeatingThread(
            REPORT_SECONDS,
            report,
            "report",
            patience=REPORT_PATIENCE,
            last=report,
            failed=lambda: report(stopped=True),
        ),
    ):
        fill([generated.filling for generated in sets], engine, complete)


class _Set:
    """An answer set while its missing answers are generated."""

    def __init__(
        self,
        work: Work,
        engine: Engine,
        settings: BaseEngineSettings,
        goodput: GoodputLimits | None,
        n_sets: int,
    ) -> None:
        self.work, self._engine = work, engine
        self._goodput = None if goodput is None else GoodputCount(goodput)
        work.load_seconds = engine.info.load_seconds
        self.leave_out()  # loading took minutes
        self._session = session_of(
            engine, settings, day=work.requests.day, mixed=work.mixed, sets=n_sets
        )
        work.begin(self._session)
        work.keep_images()
        on_rows = (lambda _: None) if work.watch is None else work.watch.add
        self.filling = Filling(
            work.requests, work.spool, self._advance, self._goodput, self._note_learned, on_rows
        )
        self._ending = Lock()
        """Held while it is decided whether the last rows are there or are left out."""
        self._ended = False
        work.made.append(self.filling.progress)
        self._artifact, self._reported = ProgressArtifact(work), -1

    def _advance(self, progress: Progress) -> None:
        current_display().advance(self.work.title, progress)

    def _note_learned(self) -> None:
        """Store with the session what a server showed with its first answer."""
        work, computed = self.work, self._engine.info.computed
        if computed != self._session.computed:
            check_computed(self._engine.info, [work])
            changes = {"computed": computed, "mixed": work.mixed}
            self._session = self._session.model_copy(update=changes)
            work.begin(self._session)

    def publish(self) -> None:
        """Publish the rows in the spool, and leave out what other machines published."""
        work, published = self.work, None
        try:
            published = publish_answers(
                work.repository, work.spool, work.plan.description, only_new=True, goes_on=True
            )
        except (OperationError, UserError) as error:
            work.count_commit(published=False)
            logger.warning("not published yet, the answers are kept in the spool: %s", error)
        if published is not None:
            work.count_commit(published=True)
        self.leave_out(published)

    def leave_out(self, published: AnswerSet | None = None) -> None:
        """Withdraw the requests whose rows other machines have published, if there are others.

        Args:
            published: The answer set at the head, if it was just read.
        """
        work, repository = self.work, self.work.repository
        if work.share is None:
            return
        try:
            found = published or find_set(repository, work.plan.specification, repository.head())
            if found is not None:
                work.requests.withdraw(found.states(work.spool.shard_states).done)
        except (OperationError, UserError) as error:
            logger.warning("what other machines published is left out later: %s", error)

    def look(self) -> None:
        """Leave out the rest of the questions if the verdict is sure."""
        work = self.work
        if work.watch is None or work.stopped is not None:
            return
        try:
            stopped = work.watch.look()
        except RegradeError as error:
            logger.warning("%s: all questions are asked: %s", work.title, error)
            return
        with self._ending:
            if stopped is not None and not self._ended:
                work.stopped = stopped
                work.requests.stop()

    def report(self, *, stopped: bool) -> None:
        """Show new progress on the flow run's page."""
        progress = self.filling.progress
        stopped = stopped and not progress.finished
        if stopped or self._reported != progress.done:
            self._reported = progress.done
            self._artifact.update(progress, stopped=stopped)

    def complete(self) -> None:
        """Store the measurements, and say what was generated."""
        work, engine, progress = self.work, self._engine, self.filling.progress
        with self._ending:
            self._ended = True
            if work.stopped is not None and not progress.left_out:
                work.stopped = None  # the last answers came at the same time
        if work.stopped is not None:
            note(work.spool, str(self._session.id), stopped=work.stopped)
        self._advance(progress)
        work.progress = progress
        if isinstance(engine, MeasuredEngine):
            work.speed = engine.measure()
            work.full_rate = engine.occupancy.full_rate if engine.occupancy else None
        if work.speed is not None and work.speed.requests > progress.new:
            progress.shared = True  # as `Session.shared` tells of what is stored
        if self._goodput is not None:
            speed = work.speed or Speed(measured_by="client")
            goodput = self._goodput.result(None if progress.shared else progress.seconds)
            work.speed = speed.model_copy(update={"goodput": goodput})
        if work.speed is not None:
            note(work.spool, str(self._session.id), speed=work.speed)
        work.generate_seconds = sum(made.seconds for made in work.made)
        logger.info(
            "%s: %s in %.1f s%s%s",
            work.title,
            counted(progress.new, "answer"),
            progress.seconds,
            progress.speed_text,
            "".join(
                f", {count} {word}"
                for count, word in ((progress.failed, "failed"), (progress.refused, "refused"))
                if count
            ),
        )


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
        description = f"{done}{time_left}{progress.speed_text}: {self._title}"
        if stopped:
            description = f"{done}, stopped: they are kept. Submit the same form again for the rest: {self._title}"
        percent = 100.0 * progress.done / progress.total
        with optional(logger, "progress not shown in Prefect"):
            if self._id is None:
                created = create_progress_artifact(percent, key=self._key, description=description)
                self._id = cast("UUID", created)  # a coroutine only in an event loop
            else:
                update_progress_artifact(self._id, percent, description=description)
