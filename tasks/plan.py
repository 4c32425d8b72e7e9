"""Plan the answer sets of a job, and find their missing answers."""

import logging
from collections.abc import Sequence

from prefect import task

from regrade.answers.base import Repository
from regrade.answers.opening import open_repository
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.comparing.checking import plans_to_score, watches
from regrade.jobs.continuing import kept, log_version_1, remaining
from regrade.jobs.job import EngineJob, EvaluationJob, GenerationJob
from regrade.jobs.plan import Plan
from regrade.jobs.plans_of_job import planned
from regrade.jobs.shares import Share
from regrade.records.columns import GENERATION_SCHEMA
from regrade.records.computed import Computed
from regrade.text.text import part_of
from tasks.step import DELAYS, retried
from tasks.work import Work, check_continued

logger = logging.getLogger("regrade.plan")


@task(name="plan", task_run_name="plan", **retried(*DELAYS))
def plan_answers(job: GenerationJob) -> list[Work]:
    """Resolve the model, open benchmarks and repository, and check the input.

    Returns:
        One `Work` per answer set; the spools are not open yet.
    """
    plans = planned(plans_to_score, job)
    repository = open_repository(job.answers, create=False, empty=True)
    share = None if job.share is None else Share.parse(job.share)
    return [as_work(plan, repository, job, share) for plan in plans]


def as_work(plan: Plan, repository: Repository, job: EngineJob, share: Share | None = None) -> Work:
    """Return the work for a plan, whose spool is not open yet."""
    suffix = "" if share is None else share.folder_suffix
    plan = kept(plan, repository, suffix)
    log_version_1(plan, repository)
    if plan.withheld is not None:
        # All samples, so that a machine that adds no row can still show and score the answers.
        plan.withheld.add_samples(plan.samples)
    folder = spool_folder(repository.uri, plan.specification.answer_set_id, suffix)
    work = Work(plan, repository, Spool(folder), job.reuse, share)
    work.price = job.price
    return work


def find_missing(work: Work) -> None:
    """Set `work.requests` to those whose answers are neither in the repository nor in the open spool."""
    ordered = work.share or work.watch or work.plan.specification.asked_again
    found = remaining(work.plan, work.repository, work.spool, work.reuse, ordered)
    work.requests = work.plan.requests(found.missing, found.sessions, found.before)
    work.replaced, work.fresh = found.replaced, found.fresh
    work.published, work.sessions = None, found.sessions
    if not found.missing:
        work.published = found.stored
        if found.stored is not None and found.stored.manifest.state == "complete":
            work.ends_here = True
        if found.stored is not None and work.plan.model.fingerprint is not None:
            now = Computed(fingerprint=work.plan.model.fingerprint)
            check_continued(work, now, found.stored.manifest.sessions)
        failed = found.stored.manifest.failed if found.stored else 0
        state = f"{failed} failed" if failed else "complete"
        logger.info("%s: %s, nothing to generate", work.title, state)
    elif len(found.missing) < work.plan.rows:
        logger.info(
            "%s: continuing, %s exist",
            work.title,
            part_of(work.plan.rows - len(found.missing), work.plan.rows, "answer"),
        )


# Answer sets whose verdict may be sure before all questions are answered (`--stop-when-sure`).


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
    missing = {(sample.id, repeat) for sample, repeat in work.requests.rows}
    for batch in stored.batches(GENERATION_SCHEMA.names):
        rows = batch.to_pylist()
        work.watch.add([row for row in rows if (row["sample_id"], row["repeat"]) not in missing])
    work.stopped = work.watch.look()
    if work.stopped is not None:
        work.requests, work.published = work.plan.requests([]), stored
        logger.info("%s: %s, nothing to generate", work.title, work.stopped)
