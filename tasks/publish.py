"""Publish answers from the spool, and scores; tried again where the failure may pass."""

import logging
from time import monotonic

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

from regrade.answers.base import Repository
from regrade.answers.publishing import publish_answers, publish_scores
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.scoring.score import Scored
from tasks.retries import may_pass
from tasks.work import Work

logger = logging.getLogger("regrade.publish")


@task(
    name="publish",
    task_run_name="publish {work.title}",
    cache_policy=NO_CACHE,
    retries=5,
    retry_delay_seconds=[5, 15, 60, 300, 900],
    retry_condition_fn=may_pass,
)
def publish(work: Work) -> None:
    """Publish what is in the spool and close the answer set; the spool is removed once it is complete."""
    started = monotonic()
    published = publish_answers(work.repository, work.spool, work.plan.description, work.session)
    work.publish_seconds = monotonic() - started
    work.published = published
    if published is not None:
        logger.info(
            "%s: %d rows published, %s, at %s",
            work.title,
            published.manifest.rows,
            published.manifest.state,
            published.revision[:12],
        )
        if published.manifest.state == "complete":
            work.spool.remove()


class ScoringBatch:
    """Scorings of one repository. Plain class: see `Work`."""

    def __init__(self, repository: Repository, scored: list[Scored]) -> None:
        self.repository = repository
        self.scored = scored

    @property
    def new(self) -> list[tuple[AnswerSet, ScoreFile, pa.Table]]:
        """The scorings that were not there before."""
        return [(one.answers, one.file, one.table) for one in self.scored if one.table is not None]


@task(
    name="publish scores",
    task_run_name="publish scores",
    cache_policy=NO_CACHE,
    retries=5,
    retry_delay_seconds=[5, 15, 60, 300, 900],
    retry_condition_fn=may_pass,
)
def publish_all_scores(batch: ScoringBatch) -> str | None:
    """Publish all new scorings in one commit and return its revision."""
    revision = publish_scores(batch.repository, batch.new)
    if batch.new:
        count = f"{len(batch.new)} scoring{'s' if len(batch.new) > 1 else ''}"
        logger.info("%s published at %s", count, str(revision)[:12])
    return revision
