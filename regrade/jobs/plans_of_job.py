"""Plan the answer sets of a job: open its benchmarks, and plan each for the model."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from regrade.answers.opening import open_repository
from regrade.answers.sets import find_set
from regrade.benchmarks import open_benchmark, open_dataset, open_harness_task
from regrade.benchmarks.base import Benchmark
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.process import end_early, start_early
from regrade.engines.vllm_process.slot import SLOTS_VARIABLE
from regrade.jobs.job import EvaluationJob, GenerationJob
from regrade.jobs.plan import Plan, make_plan
from regrade.jobs.question_settings import equal_answers
from regrade.jobs.sampling import with_sampling
from regrade.models.base import ResolvedModel
from regrade.models.patterns import named_models
from regrade.models.resolving import is_folder
from regrade.settings import SamplingSettings
from regrade.settings.errors import SettingsError
from regrade.settings.model_pattern import is_pattern, names_revision

logger = logging.getLogger("regrade.plan")


def plans_of(
    job: GenerationJob,
    model: ResolvedModel,
    benchmarks: Sequence[tuple[Benchmark, SamplingSettings | None]] | None = None,
) -> list[Plan]:
    """Return the plan of each answer set of a model.

    Args:
        job: The job.
        model: The model.
        benchmarks: Result of `open_benchmarks`, if it is there already.

    Raises:
        SettingsError: If the settings contradict each other, a benchmark or the model.
        SourceError: If a benchmark's data cannot be read.
    """
    opened = open_benchmarks(job) if benchmarks is None else benchmarks
    if job.lm_eval.model_fields_set:
        from regrade.jobs.measured import measured  # noqa: PLC0415 - the Hub client is slow to import

        opened = measured(opened, model, job.lm_eval)
    return [
        make_plan(
            benchmark,
            model,
            job.engine,
            sampling=sampling,
            prompt=job.prompt,
            repeats=job.repeats,
        )
        for benchmark, sampling in opened
    ]


def open_benchmarks(job: GenerationJob) -> list[tuple[Benchmark, SamplingSettings | None]]:
    """Return the benchmarks of a job, each with the settings made by hand, which include those of a dataset.

    Raises:
        UserError: If a benchmark, its source or the limit is refused. No data is read yet.
    """
    named = [
        open_benchmark(
            name,
            prompt=job.prompt_of(name, job.prompt),
            limit=job.limit,
            source=job.source_of(name),
        )
        for name in job.benchmarks
    ]
    named += [
        open_harness_task(
            name,
            prompt=job.prompt_of(name, job.prompt),
            limit=job.limit,
            source=job.source_of(name),
            path=job.lm_eval.path,
            arguments=job.lm_eval.arguments,
        )
        for name in job.lm_eval.names
    ]
    datasets = [
        (
            open_dataset(entry, prompt=job.prompt, limit=job.limit),
            with_sampling(job.sampling, entry.sampling),
        )
        for entry in job.datasets
    ]
    return [*((benchmark, job.sampling) for benchmark in named), *datasets]


_begun: dict[str, list[Plan]] = {}
"""Plans of jobs whose flow runs in this process, until it takes them."""


def begin(job: GenerationJob) -> None:
    """Begin a job whose flow is about to run in this process, so that it is refused before a server is started.

    It is planned if its models are in folders. A model on the Hub or behind a server is left to the flow, which asks for it
    again if it gets no answer.

    Raises:
        UserError: As `plans_of`.
    """
    names = (job.model, *job.more_models)
    folders = all(is_folder(n) or (is_pattern(n) and not names_revision(n)) for n in names)
    if isinstance(job.engine, VllmEngine) and folders and not _comes_later(job):
        _begun[_key(job)] = _made(job)
        return
    open_benchmarks(job)
    if (job.repeats or 1) > 1 and job.sampling is not None and _is_greedy(job.sampling):
        raise SettingsError(equal_answers(int(job.repeats or 1)))


@contextmanager
def engine_begun(job: GenerationJob, log: Path) -> Iterator[bool]:
    """Let the job's engine import vLLM while its flow is prepared; it ends with the block if the flow did not take it.

    Yields False if none began, because it is not needed at once, or may not be.

    Args:
        job: The job, which has begun.
        log: File for the engine's output.
    """
    try:
        yield _begin_engine(job, log)
    finally:
        end_early()


def _begin_engine(job: GenerationJob, log: Path) -> bool:
    engines_wait = bool(os.environ.get(SLOTS_VARIABLE))
    if not isinstance(job.engine, VllmEngine) or engines_wait or _comes_later(job):
        return False
    plans = _begun.get(_key(job), [])
    if plans and _are_stored(job, plans):
        return False
    from_hub = not plans or any(plan.model.identity.kind == "hub" for plan in plans)
    start_early(log, hub_token=from_hub or bool(job.engine.extra))
    return True


def _are_stored(job: GenerationJob, plans: Sequence[Plan]) -> bool:
    """Return True if a local repository has all answers; the Hub is not asked."""
    if job.answers.startswith("hf://") or job.reuse.fresh or job.reuse.heal:
        return False
    repository = open_repository(job.answers, create=False, empty=True)
    head = repository.head()
    for plan in plans:
        named = (plan.specification, *plan.earlier)
        found = (find_set(repository, specification, head) for specification in named)
        if not any(stored and stored.manifest.state == "complete" for stored in found):
            return False
    return True


def _comes_later(job: GenerationJob) -> bool:
    return isinstance(job, EvaluationJob) and job.follow is not None


def planned(job: GenerationJob) -> list[Plan]:
    """Return the plans of a job: those with which its command began, or new ones."""
    return _begun.pop(_key(job), None) or _made(job)


def _made(job: GenerationJob) -> list[Plan]:
    """Return the plans of each model; models that are named twice, such as by a link to a checkpoint, are planned once."""
    benchmarks = open_benchmarks(job)
    plans: list[Plan] = []
    for name in named_models((job.model, *job.more_models)):
        made = plans_of(job, job.engine.resolve(name), benchmarks)
        ids = {plan.specification.answer_set_id: plan.model.identity.name for plan in plans}
        if first := ids.get(made[0].specification.answer_set_id):
            logger.info("'%s' is the same model as '%s': evaluated once", name, first)
            continue
        plans += made
    return plans


def _key(job: GenerationJob) -> str:
    return f"{type(job).__name__} {job.engine.kind} {job.model_dump_json(exclude_unset=True)}"


def _is_greedy(sampling: SamplingSettings) -> bool:
    return "temperature" in sampling.model_fields_set and sampling.temperature == 0
