"""Plan: what is asked, which answer sets that makes, and what is missing of them."""

import logging

from prefect import task

from regrade.answers.base import Repository
from regrade.answers.opening import open_repository
from regrade.answers.sets import find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.benchmarks import open_benchmark, open_dataset
from regrade.benchmarks.base import Benchmark
from regrade.errors import SettingsError
from regrade.generation import Plan, make_plan
from regrade.job import GenerationJob
from tasks.work import RETRIED, Work

logger = logging.getLogger("regrade.plan")


@task(name="plan", task_run_name="plan", **RETRIED)
def plan_answers(job: GenerationJob) -> list[Work]:
    """Resolve the model, open the benchmarks and the repository; invalid input is found here.

    Returns:
        One piece of work per answer set; the spools are not open yet.
    """
    repository = open_repository(job.answers, create=True)
    model = job.engine.resolve(job.model)
    plans = [
        make_plan(benchmark, model, sampling=job.sampling, prompt=job.prompt, repeats=job.repeats)
        for benchmark in _open_benchmarks(job)
    ]
    ids = [plan.specification.answer_set_id for plan in plans]
    if len(set(ids)) < len(ids):
        raise SettingsError("The same benchmark was asked for twice with the same settings.")
    return [_work(plan, repository) for plan in plans]


def _open_benchmarks(job: GenerationJob) -> list[Benchmark]:
    named = [
        open_benchmark(name, prompt=job.prompt, limit=job.limit, source=job.source_of(name))
        for name in job.benchmarks
    ]
    return named + [open_dataset(one, prompt=job.prompt, limit=job.limit) for one in job.datasets]


def _work(plan: Plan, repository: Repository) -> Work:
    folder = spool_folder(repository.uri, plan.specification.answer_set_id)
    return Work(plan, repository, Spool(folder))


def find_missing(work: Work) -> None:
    """Note what is missing, given the head of the repository and the open spool; nothing of a complete answer set."""
    there = find_set(work.repository, work.plan.specification, work.repository.head())
    if there is not None and there.manifest.state == "complete":
        work.published, work.missing = there, []
        logger.info("%s: complete, nothing to generate", work.title)
        return
    done = work.spool.keys() | (there.keys() if there else set())
    work.published, work.missing = None, work.plan.missing(done)
    if done:
        logger.info(
            "%s: continuing, %d of %d answers are there", work.title, len(done), work.plan.rows
        )
