"""Plan the answer sets of a job: open its benchmarks, and plan each for the model."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from regrade.answers.opening import open_repository
from regrade.answers.sets import find_set
from regrade.answers.spool import check_spools
from regrade.benchmarks import open_benchmark, open_dataset
from regrade.benchmarks.base import Benchmark
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.process import end_early, start_early
from regrade.engines.vllm_process.slot import SLOTS_VARIABLE
from regrade.jobs.job import EngineSettings, EvaluationJob, GenerationJob
from regrade.jobs.plan import Plan, make_plan
from regrade.jobs.question_settings import equal_answers
from regrade.jobs.sampling import with_sampling
from regrade.jobs.shares import Share, publish_seconds
from regrade.models.base import ResolvedModel
from regrade.models.patterns import named_models
from regrade.models.resolving import is_folder, resolve_here
from regrade.processes.metrics_endpoint import ports
from regrade.settings import SamplingSettings, Settings
from regrade.settings.errors import HubError, SettingsError, may_pass
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
            benchmark, model, job.engine, sampling=sampling, prompt=job.prompt, repeats=job.repeats
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
            tasks=job.lm_eval,
        )
        for name in (*job.benchmarks, *job.lm_eval.names)
    ]
    datasets = [
        (
            open_dataset(entry, prompt=job.prompt, limit=job.limit),
            with_sampling(job.sampling, entry.sampling),
        )
        for entry in job.datasets
    ]
    return [*((benchmark, job.sampling) for benchmark in named), *datasets]


_P = ParamSpec("_P")
_R = TypeVar("_R")
_begun: dict[str, object] = {}
"""Plans of flows that run in this process, until the flows take them."""


def begin(plan: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
    """Plan what a flow is about to do in this process, so that it is refused before anything starts; `planned` takes the result.

    None if the Hub did not answer: the flow asks again.

    Raises:
        RegradeError: As `plan`.
    """
    try:
        made = plan(*args, **kwargs)
    except HubError as error:
        if not may_pass(error):
            raise
        return None
    _begun[_key(plan, args, kwargs)] = made
    return made


def planned(plan: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Return what `begin` planned with these arguments, or plan it."""
    found = _begun.pop(_key(plan, args, kwargs), None)
    return plan(*args, **kwargs) if found is None else cast("_R", found)


def _key(plan: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    named = [
        # all values, with the engine's kind, and those that were set, which may mean more than an equal default
        f"{type(part).__name__} {part.model_dump_json()} {part.model_dump_json(exclude_unset=True)}"
        if isinstance(part, Settings)
        else repr(part)
        for part in (*args, *kwargs.values())
    ]
    return " ".join([plan.__qualname__, *named])


def checked_benchmarks(job: GenerationJob) -> list[tuple[Benchmark, SamplingSettings | None]]:
    """Return the benchmarks of a job, unless something is wrong with it, or with this machine, whatever its models are.

    Raises:
        UserError: As `open_benchmarks`.
        SettingsError: If a setting or a variable of the environment has no valid value here.
    """
    benchmarks = open_benchmarks(job)
    publish_seconds()
    ports()
    if job.share is not None:
        Share.parse(job.share)
    if not isinstance(job, EvaluationJob) or job.machines is None:
        job.engine.check_here()
    if (job.repeats or 1) > 1 and job.sampling is not None and _is_greedy(job.sampling):
        raise SettingsError(equal_answers(int(job.repeats or 1)))
    return benchmarks


def check_model(engine: EngineSettings, name: str) -> None:
    """Refuse the name of a model that has its turn later, if there is no such model; a server is asked when its turn comes.

    Raises:
        ModelError: If it is not in its folder, whose weights are not read, or not on the Hub.
    """
    if isinstance(engine, VllmEngine) and is_folder(name):
        resolve_here(name, quantization=engine.quantization, reads_weights=False)
    elif isinstance(engine, VllmEngine):
        begin(resolve_here, name)


@contextmanager
def engine_begun(job: GenerationJob, log: Path, plans: Sequence[Plan] | None) -> Iterator[bool]:
    """Let the job's engine import vLLM while its flow is prepared; it ends with the block if the flow did not take it.

    Yields False if none began, because it is not needed at once, or may not be.

    Args:
        job: The job.
        log: File for the engine's output.
        plans: Its plans. None: not known yet.
    """
    try:
        yield _begin_engine(job, log, plans or ())
    finally:
        end_early()


def _begin_engine(job: GenerationJob, log: Path, plans: Sequence[Plan]) -> bool:
    engines_wait = bool(os.environ.get(SLOTS_VARIABLE))
    if not isinstance(job.engine, VllmEngine) or engines_wait or _comes_later(job):
        return False
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


def in_folders(job: GenerationJob) -> bool:
    """Return True if the models of a job are in folders, so that it is planned in a moment."""
    names = (job.model, *job.more_models)
    folders = all(is_folder(n) or (is_pattern(n) and not names_revision(n)) for n in names)
    return isinstance(job.engine, VllmEngine) and folders


def plans_of_all(job: GenerationJob) -> list[Plan]:
    """Return the plans of each model; models that are named twice, such as by a link to a checkpoint, are planned once.

    A job that waits for models has no plans yet: its questions are read, but those that a task makes for a model.

    Raises:
        RepositoryError: If the answers cannot be kept at their address.
        SpoolError: If they cannot be kept on this machine until they are published.
        RegradeError: As `checked_benchmarks` and `plans_of`.
    """
    benchmarks = planned(checked_benchmarks, job)
    if _comes_later(job):
        for benchmark, _ in benchmarks:
            if benchmark.name not in job.lm_eval.names:
                benchmark.samples()
        _check_places(job)
        return []
    plans: list[Plan] = []
    for name in named_models((job.model, *job.more_models)):
        made = plans_of(job, job.engine.resolve(name), benchmarks)
        ids = {plan.specification.answer_set_id: plan.model.identity.name for plan in plans}
        if first := ids.get(made[0].specification.answer_set_id):
            logger.info("'%s' is the same model as '%s': evaluated once", name, first)
            continue
        plans += made
    if len({plan.specification.answer_set_id for plan in plans}) < len(plans):
        raise SettingsError(
            "A benchmark was given twice with the same settings; give each benchmark once."
        )
    _check_places(job)
    return plans


def _check_places(job: GenerationJob) -> None:
    """Refuse a job whose answers cannot be kept; a dataset on the Hub is created, so that this is checked last."""
    open_repository(job.answers, create=True)
    check_spools()


def _is_greedy(sampling: SamplingSettings) -> bool:
    return "temperature" in sampling.model_fields_set and sampling.temperature == 0
