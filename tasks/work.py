"""State of an answer set in a flow.

Prefect visits the elements of a task's arguments (`tasks.step.hidden`), but not those of a plain class such as `Work`.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING

from regrade.answers.base import Repository
from regrade.answers.images import StoredImages
from regrade.answers.manifest import Session, Stopped
from regrade.answers.origin import begin_session
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.engines.base import EngineInfo
from regrade.jobs.generate import Progress
from regrade.jobs.plan import Plan
from regrade.jobs.shares import Share
from regrade.processes.metrics_state import AnswerSetState
from regrade.records.computed import Computed, computed_differences
from regrade.settings import Reuse, TokenPrice
from regrade.settings.errors import OperationError, RegradeError, SettingsError
from regrade.stats.speed import Speed

if TYPE_CHECKING:
    from prefect.futures import PrefectFuture

    from regrade.comparing.stopping import Watch
    from tasks.score import ScoredSet
    from tasks.step import Started


logger = logging.getLogger("regrade")


class Work:
    """A planned answer set: its missing answers, and the results of the steps so far.

    Args:
        plan: Questions and specification of the answer set.
        repository: Repository to publish to.
        spool: Journal of the answers that are not published yet; open while the flow works on them.
        reuse: Use of stored answers.
        share: Place of this machine among those that generate the same answers; None if it is alone.
    """

    def __init__(
        self,
        plan: Plan,
        repository: Repository,
        spool: Spool,
        reuse: Reuse,
        share: Share | None = None,
    ) -> None:
        self.plan = plan
        self.repository = repository
        self.spool = spool
        self.reuse = reuse
        self.share = share
        self.failure: RegradeError | None = None
        """The error at which the model failed before this answer set was complete."""
        self.point = ""
        """Point of a sweep to which it belongs, for log lines."""
        self.requests = plan.requests([])
        """Requests of the missing rows."""
        self.replaced: tuple[str, ...] = ()
        """sha256 of published shards whose rows are generated again."""
        self.fresh = False
        """All answers are generated again; the published ones can be read."""
        self.sessions: tuple[Session, ...] = ()
        """Earlier sessions whose answers are kept."""
        self.mixed: tuple[str, ...] = ()
        """Differences to what they computed, which `reuse.mix` accepted."""
        self.progress: Progress | None = None
        """Generation by the engine that completed the answer set; None before it."""
        self.publishing: PrefectFuture[None] | None = None
        """Task run that publishes the answers; None before it is submitted."""
        self.published: AnswerSet | None = None
        self.price: TokenPrice | None = None
        """Price of the model's tokens; None: not given."""
        self.ends_here = share is None
        """This run scores the answer set, because it is alone, its rows completed the set, or the set was complete
        before."""
        self.load_seconds = 0.0
        self.generate_seconds = 0.0
        self.speed: Speed | None = None
        """Measurements inside the engine, or None."""
        self.full_rate: float | None = None
        """Tokens per second while the engine was full; None: it was not, or they are not known."""
        self.publish_seconds = 0.0
        self.made: list[Progress] = []
        """Generation by this flow run with each engine; the last one also while it generates."""
        self.scoring: Started[ScoredSet | None] | None = None
        """Step that scores the answers once they are published; None if none was started."""
        self.watch: Watch | None = None
        """Looks for a verdict that is sure before all questions are answered; None: all are asked."""
        self.stopped: Stopped | None = None
        """That verdict; the rest of the questions was not asked."""
        self.in_engine: Callable[[], int] = lambda: 0
        """Returns the requests that the engine has taken and not answered."""
        self.commits = self.failed_commits = 0
        self.last_commit: float | None = None
        """Time of the last commit, as seconds since 1970."""

    def begin(self, session: Session) -> None:
        """Record a session in the spool, to which the following rows belong."""
        begin_session(
            self.spool,
            self.repository.uri,
            self.plan.description,
            session,
            replaced=self.replaced,
            fresh=self.fresh,
        )

    def keep_images(self) -> None:
        """Keep the images that the repository lacks in the spool, for the next commit."""
        images = {image.sha256: image for image in self.plan.images()}
        if not images:
            return
        benchmark = self.plan.specification.benchmark.name
        try:
            stored = StoredImages(self.repository, self.repository.head() or "", benchmark)
            known = stored.places.keys()
        except OperationError as error:  # publishing looks again, and leaves out what is there
            logger.warning("stored images are looked for later: %s", error)
            known = {}.keys()
        self.spool.keep_images(image for key, image in images.items() if key not in known)

    def count_commit(self, *, published: bool) -> None:
        """Count an attempt to publish."""
        if published:
            self.commits += 1
            self.last_commit = time()
        else:
            self.failed_commits += 1

    @property
    def state(self) -> AnswerSetState:
        """Counts for Prometheus."""
        specified, live = self.plan.specification, self.made[-1] if self.made else Progress(0)
        return AnswerSetState(
            benchmark=specified.benchmark.name,
            model=specified.model.name,
            answer_set=specified.answer_set_id,
            planned=self.plan.rows,
            stored=live.resumed + live.elsewhere
            if self.made
            else self.plan.rows - len(self.requests),
            answers=live.new,
            failed=live.failed,
            refused=live.refused,
            prompt_tokens=live.prompt_tokens,
            completion_tokens=live.completion_tokens,
            in_engine=self.in_engine(),
            spool_rows=self.spool.rows,
            spool_bytes=self.spool.size,
            commits=self.commits,
            failed_commits=self.failed_commits,
            last_commit=self.last_commit,
            load_seconds=self.load_seconds or None,
        )

    @property
    def answers(self) -> AnswerSet:
        """The published answer set; an empty one without a revision if nothing is published."""
        if self.published is not None:
            return self.published
        empty = self.plan.description.manifest((), (), datetime.now(UTC))
        return AnswerSet(self.repository, "", empty)

    @property
    def title(self) -> str:
        """Benchmark and model, and the point of a sweep, for log lines and pages."""
        title = self.plan.specification.title
        return f"{title} ({self.point})" if self.point else title


def check_computed(info: EngineInfo, works: Sequence[Work]) -> None:
    """Refuse to continue answers that were computed otherwise: they would not be one model's answers.

    Differences that only round otherwise are logged, and so are all if `reuse.mix` accepts them.

    Raises:
        SettingsError: If an earlier session of an answer set computed something else.
    """
    now = info.computed or Computed(dtype=info.dtype)
    for work in works:
        check_continued(work, now, work.sessions)


def check_continued(work: Work, now: Computed, sessions: Sequence[Session]) -> None:
    """Check one answer set like `check_computed`.

    Args:
        work: The answer set.
        now: What the engine computes.
        sessions: Sessions of its answers so far.

    Raises:
        SettingsError: If one of them computed something else.
    """
    earlier = [session.computed or Computed(dtype=session.dtype) for session in sessions]
    found = dict.fromkeys(d for session in earlier for d in computed_differences(session, now))
    differing = tuple(str(difference) for difference in found if not difference.rounding)
    if differing and not work.reuse.mix:
        raise SettingsError(
            f"{work.title}: its answers so far were computed otherwise ({'; '.join(differing)} of this engine). Use the same "
            "settings and kind of machine, `--fresh` to generate all answers again, or `--mix` to continue: the answer set "
            "says so for ever."
        )
    work.mixed = differing
    for difference in found:
        logger.warning("%s: computed otherwise than before: %s", work.title, difference)
