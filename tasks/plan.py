"""Plan: what is asked, which answer sets that makes, and what is missing of them."""

import logging

from prefect import task
from prefect.cache_policies import NO_CACHE

from regrade.answers.base import Repository
from regrade.answers.opening import open_repository
from regrade.answers.sets import find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.benchmarks import open_benchmark, open_dataset
from regrade.benchmarks.base import Benchmark
from regrade.errors import SettingsError
from regrade.generation import Plan, make_plan
from regrade.job import GenerationJob
from tasks.retries import may_pass
from tasks.work import Work

logger = logging.getLogger("regrade.plan")


@task(
    name="plan",
    task_run_name="plan",
    cache_policy=NO_CACHE,
    retries=3,
    retry_delay_seconds=[2, 10, 30],
    retry_condition_fn=may_pass,
)
def plan_answers(job: GenerationJob) -> tuple[Repository, list[Plan]]:
    """Resolve the model, open the benchmarks and the repository; everything that can be wrong is found here."""
    repository = open_repository(job.answers, create=True)
    model = job.engine.resolve(job.model)
    plans = [
        make_plan(benchmark, model, sampling=job.sampling, prompt=job.prompt, repeats=job.repeats)
        for benchmark in _open_benchmarks(job)
    ]
    ids = [plan.specification.answer_set_id for plan in plans]
    if len(set(ids)) < len(ids):
        raise SettingsError("The same benchmark was asked for twice with the same settings.")
    return repository, plans


def _open_benchmarks(job: GenerationJob) -> list[Benchmark]:
    named = [
        open_benchmark(name, prompt=job.prompt, limit=job.limit, source=job.source_of(name))
        for name in job.benchmarks
    ]
    return named + [open_dataset(one, prompt=job.prompt, limit=job.limit) for one in job.datasets]


def find_missing(plan: Plan, repository: Repository, spool: Spool) -> Work:
    """Return what is missing of a plan, given the head of the repository and the open spool."""
    there = find_set(repository, plan.specification, repository.head())
    if there is not None and there.manifest.state == "complete":
        work = Work(plan, repository, spool, [])
        work.published = there
        logger.info("%s: complete, nothing to generate", work.title)
        return work
    done = spool.keys() | (there.keys() if there else set())
    work = Work(plan, repository, spool, plan.missing(done))
    if done:
        logger.info("%s: continuing, %d of %d answers are there", work.title, len(done), plan.rows)
    return work


def open_spool(plan: Plan, repository: Repository) -> Spool:
    """Return the spool of a plan, not entered yet."""
    return Spool(spool_folder(repository.uri, plan.specification.answer_set_id))
