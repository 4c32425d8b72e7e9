"""Publish answers from the spool; retried after temporary failures."""

import logging
from time import monotonic

from prefect import task

from regrade.answers import publishing
from regrade.answers.origin import read_origin
from regrade.settings.errors import RegradeError
from regrade.text.text import counted
from tasks.step import PUBLISHING_DELAYS, retried
from tasks.work import Work

logger = logging.getLogger("regrade.publish")


@task(name="publish", task_run_name="publish {work.title}", **retried(*PUBLISHING_DELAYS))
def publish_answers(work: Work) -> None:
    """Publish the rows of the spool; remove the spool if the answer set is then complete."""
    started = monotonic()
    origin = read_origin(work.spool)
    sessions = {session.id for session in origin.sessions} if origin else set()
    stored = work.published
    try:
        published = publishing.publish_answers(work.repository, work.spool, work.plan.description)
    except RegradeError:
        work.count_commit(published=False)
        raise
    work.published = published
    work.count_commit(published=True)
    if work.plan.withheld is not None:
        publishing.publish_questions(work.plan.withheld)
    if published is not None:
        manifest = published.manifest
        # By rows of these sessions, whether or not the commit's reply was lost.
        if manifest.state == "complete" and manifest.shards[-1].session in sessions:
            work.ends_here = True
        if stored is None or stored.manifest.shards != manifest.shards:
            work.publish_seconds = monotonic() - started
            logger.info(
                "%s: %s published, %s, at %s",
                work.title,
                counted(manifest.rows, "row"),
                manifest.state,
                published.revision[:12],
            )
        if manifest.state == "complete":
            work.spool.remove()
