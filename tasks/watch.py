"""Watch answer sets for verdicts that are sure before all questions are answered (`--stop-when-sure`)."""

import logging
from collections.abc import Sequence

from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet, find_set
from regrade.comparing.checking import watches
from regrade.comparing.stopping import Watch
from regrade.jobs.job import EvaluationJob
from regrade.records.columns import GENERATION_SCHEMA
from tasks.work import Work

logger = logging.getLogger("regrade.plan")


def watch_verdicts(job: EvaluationJob, works: Sequence[Work]) -> None:
    """Watch each answer set whose benchmark the baseline has, if the job asks for it; errors as in `watches`."""
    found = watches(job, [work.plan for work in works])
    for work in works:
        work.watch = found.get(work.plan.specification.answer_set_id)


def look_at_stored(work: Work) -> None:
    """Count the stored answers of an answer set that is watched; leave the rest out if the verdict is already sure.

    Raises:
        RepositoryError: If answers that an earlier run left in the spool cannot be published.
        DamagedAnswersError: If stored answers are damaged.
    """
    if work.watch is None or not 0 < len(work.requests) < work.plan.rows:
        return
    if work.spool.rows:
        publish_answers(work.repository, work.spool, work.plan.description, only_new=True)
    stored = find_set(work.repository, work.plan.specification, work.repository.head())
    if stored is None:
        return
    _add(work.watch, stored, {(sample.id, repeat) for sample, repeat in work.requests.rows})
    work.stopped = work.watch.look()
    if work.stopped is not None:
        work.requests, work.published = work.plan.requests([]), stored
        logger.info("%s: %s, nothing to generate", work.title, work.stopped)


def _add(watch: Watch, stored: AnswerSet, missing: set[tuple[str, int]]) -> None:
    for batch in stored.batches(GENERATION_SCHEMA.names):
        rows = batch.to_pylist()
        watch.add([row for row in rows if (row["sample_id"], row["repeat"]) not in missing])
