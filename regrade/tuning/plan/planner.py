"""Make the plan of a model's memory: vLLM computes the need of each split."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from regrade.answers.base import Repository
from regrade.answers.opening import open_repository
from regrade.answers.sets import intact_sets
from regrade.engines.base import parallel_by_hand
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.planner import Length, Machine, SplitMemory, VllmPlanner
from regrade.engines.vllm_process.settings import PARALLEL
from regrade.jobs.job import GenerationJob, make_job
from regrade.jobs.plan import prompt_rendering
from regrade.jobs.plans_of_job import plans_of
from regrade.settings.errors import OperationError, SettingsError, UserError
from regrade.settings.files import log_file
from regrade.stats.scale import percent
from regrade.stats.speed import gib
from regrade.text.text import counted
from regrade.tuning.plan.gpus import gpu_key, gpu_memory, is_device, parse_memory
from regrade.tuning.plan.plan import (
    Margin,
    MemoryPlan,
    SplitPlan,
    Target,
    choose,
    rule_against,
    splits_of,
    what_would_fit,
)
from regrade.tuning.plan.request import PlanRequest

# The GPUs to plan for: those that are named, or those of this machine.

UTILIZATION = 0.92
"""vLLM's default of `gpu_memory_utilization`."""


def given_target(request: PlanRequest) -> Target | None:
    """Return the GPUs that the request names; None if it names none.

    Raises:
        SettingsError: If the name or the memory is not known.
    """
    if request.gpu is None and request.gpu_memory is None:
        return None
    if request.gpu is not None:
        memory, name = gpu_memory(request.gpu), gpu_key(request.gpu)
    else:
        memory, name = parse_memory(request.gpu_memory or ""), None
    return _gpus(request, name, request.gpus or 1, memory)


def this_machine(request: PlanRequest, machine: Machine) -> Target:
    """Return this machine's GPUs, or its CPU if none are asked for.

    Raises:
        SettingsError: If the machine has no or fewer GPUs.
    """
    if machine.is_cpu or machine.memory is None:
        if request.gpus is not None:
            raise SettingsError(
                f"`gpus={request.gpus}`: this machine has no GPU. Name the kind: `gpu=h100`, or `gpu_memory=80GiB`."
            )
        return Target(gpu=machine.device, gpus=1, memory=None, usable=None)
    if request.gpus is not None and request.gpus > machine.count:
        raise SettingsError(
            f"`gpus={request.gpus}`: this machine has {machine.count}. To plan for another one, name its GPUs: `gpu=h100`, "
            "or `gpu_memory=80GiB`."
        )
    return _gpus(request, machine.device, request.gpus or machine.count, machine.memory)


def _gpus(request: PlanRequest, name: str | None, gpus: int, memory: int) -> Target:
    share = request.engine.gpu_memory_utilization or UTILIZATION
    return Target(gpu=name, gpus=gpus, memory=memory, usable=int(memory * share))


# Margins that engines measured at earlier starts, from the sessions in an answer repository.

ASSUMED_SHARE = 0.10
"""Margin without a measurement, as a share of the GPU's memory."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of an engine that measured its memory."""

    model: str
    device: str
    at: datetime
    other: int
    """Bytes of a GPU that were neither weights nor KV cache."""
    eager: bool
    """Without CUDA graphs."""


def margin_for(request: PlanRequest, model: str, target: Target) -> tuple[Margin, tuple[str, ...]]:
    """Return the margin for GPUs, and a note if earlier starts could not be read.

    Args:
        request: Its answer repository holds the earlier starts.
        model: Name of the model.
        target: The GPUs, or a CPU, which needs no margin.
    """
    if target.memory is None:
        return Margin(bytes=0, measured=False, source=_ON_CPU), ()
    earlier: list[Start] = []
    notes: tuple[str, ...] = ()
    if target.gpu is not None:
        try:
            repository = open_repository(request.answers, create=False, empty=True)
            earlier = starts_in(repository, target.gpu)
        except (OperationError, UserError) as error:
            notes = (f"Earlier starts were not read: {error}",)
            logger.warning("%s", notes[0])
    eager = request.engine.enforce_eager
    return margin_of(earlier, model=model, memory=target.memory, eager=eager), notes


_ON_CPU = "None: on a CPU the KV cache has a size of its own, between 1 and 4 GiB unless it is set."


def starts_in(repository: Repository, gpu: str) -> list[Start]:
    """Return the measured starts on a kind of GPU in an answer repository; without any answers, there are none."""
    revision = repository.head()
    if revision is None:
        return []
    return [
        Start(
            model=entry.manifest.specification.model.name,
            device=session.device,
            at=session.started_at,
            other=session.memory.other,
            eager=bool(session.engine_settings.get("enforce_eager")),
        )
        for entry in intact_sets(repository, revision)
        for session in entry.manifest.sessions
        if session.memory is not None and session.memory.other is not None
        if session.device and is_device(gpu, session.device)
    ]


def margin_of(earlier: Sequence[Start], *, model: str, memory: int, eager: bool) -> Margin:
    """Return the largest measured margin, of this model if it was started before; else an assumed one.

    Args:
        earlier: Starts on this kind of GPU.
        model: Name of the model.
        memory: Memory of a GPU in bytes.
        eager: The engine is to run without CUDA graphs.
    """
    alike = [start for start in earlier if start.eager == eager]
    same = [start for start in alike if start.model == model]
    if largest := max(same or alike, key=lambda start: start.other, default=None):
        n = len(same or alike)
        of = "of this model" if same else "of other models"
        starts_text = f"the start {of}" if n == 1 else f"{n} starts {of}, the largest"
        return Margin(
            bytes=largest.other,
            measured=True,
            source=f"{gib(largest.other)} measured on {largest.device} ({starts_text}, {largest.at:%Y-%m-%d}) for activations "
            "and CUDA graphs.",
        )
    assumed = int(memory * ASSUMED_SHARE)
    return Margin(
        bytes=assumed,
        measured=False,
        source=f"{gib(assumed)} assumed ({percent(ASSUMED_SHARE, 0)} of the GPU) for activations and CUDA graphs, which only a start "
        "can measure.",
    )


logger = logging.getLogger("regrade.plan")
_ELSEWHERE = (
    "Planned on a machine without such a GPU: its attention is assumed to keep blocks of 16 tokens, and steps to have vLLM's "
    "default size for its memory."
)
_QUANTISED_LATER = "vLLM quantises these weights while it loads them: their size may be that before, and what is kept is smaller."
_ADAPTER = "The adapter is not counted."


def splits_to_try(job: GenerationJob, gpus: int) -> list[dict[str, int]]:
    """Return the engine settings of the splits of this machine's GPUs that fit, for a job: the plan's choice first.

    Only the split of the job's own settings if there is nothing to divide, or no plan can be made.
    """
    given = [parallel_by_hand(job.engine)]
    if gpus < 2 or set(PARALLEL) <= job.engine.model_fields_set:
        return given
    request = make_job(PlanRequest, {**job.shared_with(PlanRequest), "gpus": gpus})
    try:
        plan = make_memory_plan(request, log=log_file("plan"))
    except SettingsError as error:
        logger.warning("no plan, so that no other split over the GPUs is tried: %s", error)
        return given
    logger.info("%s: %s", plan.target.title, plan.advice)
    return [split.settings for split in plan.to_try] or given


def make_memory_plan(
    request: PlanRequest, *, log: Path, on_progress: Callable[[str], None] | None = None
) -> MemoryPlan:
    """Return the plan of a model on GPUs.

    Args:
        request: Model, GPUs and length.
        log: File for the output of vLLM.
        on_progress: Called with the name of each stage.

    Raises:
        NotInstalledError: If vLLM is not installed.
        SettingsError: If a setting is invalid, or contradicts the model or this machine, or this vLLM cannot build the model.
        ModelError: If the model does not exist, or lacks what a plan needs.
    """
    given = given_target(request)
    engine = request.engine.model_copy(update={"lora": None})
    if request.max_model_len is not None:
        engine = engine.model_copy(update={"max_model_len": request.max_model_len})
    model = engine.resolve_to_plan(request.model, needs_tokenizer=bool(request.names))
    plans = plans_of(request.job, model) if request.names else []
    planner = VllmPlanner(
        engine,
        model,
        target=None if given is None else {"name": given.gpu or "", "memory": given.memory},
        # Repeats are as long.
        requests=[plan.requests([(sample, 0) for sample in plan.samples]) for plan in plans],
        rendering=prompt_rendering(request.prompt),
        log=log,
        on_progress=on_progress,
    )
    with planner:
        machine, length = planner.machine, planner.length
        target = given or this_machine(request, machine)
        margin, notes = margin_for(request, model.identity.name, target)
        elsewhere = machine.is_cpu and target.memory is not None
        alone = planner.split(1, 1, 1, reserved=margin.bytes)
        if isinstance(alone, str):
            advice = " Plan on a machine with such a GPU." if elsewhere else ""
            raise SettingsError(
                f"vLLM cannot build '{model.identity.name}' here: {alone.rstrip('.')}.{advice}"
            )
        splits = [
            _measured(split, planner, alone, margin.bytes)
            for split in splits_with(engine, target.gpus)
        ]
    target = target.model_copy(update={"usable": alone.usable})
    choice = choose(splits, length.max_model_len)
    more = (
        (_ELSEWHERE, elsewhere),
        (_QUANTISED_LATER, engine.quantization is not None),
        (_ADAPTER, request.engine.lora is not None),
    )
    return MemoryPlan(
        model=model.identity.name,
        revision=model.identity.revision,
        parameters=alone.parameters,
        vllm=machine.version,
        target=target,
        dtype=length.dtype,
        max_model_len=length.max_model_len,
        length_source=_source(length, engine, request),
        margin=margin,
        splits=tuple(splits),
        choice=choice,
        advice=choice.reason if choice else what_would_fit(splits, target, margin),
        notes=(*notes, *(note for note, holds in more if holds)),
    )


def _source(length: Length, engine: VllmEngine, request: PlanRequest) -> str:
    if length.longest_prompt is None:
        return "as given" if engine.max_model_len else "the model's limit"
    return (
        f"the longest of {length.requests:,} requests of {', '.join(request.names)}: {length.longest_prompt:,} tokens "
        f"of prompt and {length.longest_answer:,} of answer, rounded up"
    )


def splits_with(engine: VllmEngine, gpus: int) -> list[SplitPlan]:
    """Return the splits of GPUs, only those with the sizes that the engine's settings fix.

    Raises:
        SettingsError: If there is none.
    """
    fixed = parallel_by_hand(engine).items()
    splits = [split for split in splits_of(gpus) if fixed <= split.settings.items()]
    if not splits:
        raise SettingsError(
            f"No split of {counted(gpus, 'GPU')} has the parallel sizes of the engine's settings. Leave them out, or set "
            "`gpus` to a multiple of their product."
        )
    return splits


def _measured(
    split: SplitPlan, planner: VllmPlanner, alone: SplitMemory, reserved: int
) -> SplitPlan:
    """Return a split with its memory, or why vLLM refuses it.

    Args:
        split: The split.
        planner: It answers for each split.
        alone: Memory of a single GPU, known already.
        reserved: Bytes of a GPU that are neither weights nor KV cache.
    """
    sizes = (split.tensor, split.pipeline, split.data)
    if sizes == (1, 1, 1):
        return with_memory(split, alone, reserved)
    memory = planner.split(*sizes, reserved=reserved)
    if isinstance(memory, SplitMemory):
        return with_memory(split, memory, reserved)
    length = planner.length
    rule = rule_against(
        split,
        heads=length.heads,
        kv_heads=length.kv_heads,
        vocabulary=length.vocabulary,
        layers=length.layers,
    )
    return split.model_copy(update={"refused": rule or f"vLLM refuses it: {memory}"})


def with_memory(split: SplitPlan, memory: SplitMemory, reserved: int) -> SplitPlan:
    """Return a split with its memory, and the bytes that a GPU lacks.

    Args:
        split: The split.
        memory: Memory of its GPUs.
        reserved: Bytes of a GPU that are neither weights nor KV cache.
    """
    limit = psutil.virtual_memory().total if memory.usable is None else memory.usable
    lacking = 0
    for weights, room, needed in zip(memory.weights, memory.kv_cache, memory.needed, strict=True):
        # A KV cache of a given size may exceed the GPU; otherwise it takes the rest of the GPU.
        lacking = max(lacking, needed - room, weights + reserved + max(room, needed) - limit)
    known = {
        "weights": memory.weights,
        "kv_cache": memory.kv_cache,
        "kv_cache_needed": memory.needed,
        "tokens": memory.tokens,
        "concurrency": memory.concurrency,
        "lacking": lacking,
    }
    return split.model_copy(update=known)
