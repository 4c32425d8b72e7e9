"""Make the plan of a model's memory: by vLLM, or by a formula if vLLM cannot tell."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from regrade.answers.base import Repository
from regrade.answers.manifest import Manifest, Session
from regrade.answers.opening import open_repository
from regrade.answers.sets import readable_sets
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.planner import (
    CannotPlanError,
    Length,
    Machine,
    Refused,
    SplitMemory,
    VllmPlanner,
)
from regrade.jobs.plan import Plan, PlannedRequests, prompt_rendering
from regrade.jobs.plans_of_job import plans_of
from regrade.models import ResolvedModel
from regrade.settings.errors import OperationError, SettingsError, UserError
from regrade.stats.speed import gib
from regrade.tuning.plan.estimate import Split, formula_of, rule_against, splits_of
from regrade.tuning.plan.gpus import gpu_key, gpu_memory, is_device, parse_memory
from regrade.tuning.plan.plan import Margin, MemoryPlan, SplitPlan, Target, choose, what_would_fit
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


def this_machine(request: PlanRequest, machine: Machine | None) -> Target:
    """Return this machine's GPUs, or its CPU if none are asked for.

    Raises:
        SettingsError: If the machine is not known, or has no or fewer GPUs.
    """
    if machine is None:
        raise SettingsError(
            "Without vLLM the GPUs of this machine are not known. Name them: `--gpu h100`, or `--gpu-memory 80GiB`."
        )
    if machine.is_cpu or machine.memory is None:
        if request.gpus is not None:
            raise SettingsError(
                f"`--gpus {request.gpus}`: this machine has no GPU. Name the kind: `--gpu h100`, or `--gpu-memory 80GiB`."
            )
        return Target(gpu=machine.device, gpus=1, memory=None, usable=None)
    if request.gpus is not None and request.gpus > machine.count:
        raise SettingsError(
            f"`--gpus {request.gpus}`: this machine has {machine.count}. To plan for another one, name its GPUs: `--gpu h100`, "
            "or `--gpu-memory 80GiB`."
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
    name = target.gpu
    if name is not None:
        try:
            repository = open_repository(request.answers, create=False, empty=True)
            earlier = starts_in(repository, lambda device: is_device(name, device))
        except (OperationError, UserError) as error:
            notes = (f"Earlier starts were not read: {error}",)
            logger.warning("%s", notes[0])
    eager = request.engine.enforce_eager
    return margin_of(earlier, model=model, memory=target.memory, eager=eager), notes


_ON_CPU = "None: on a CPU the KV cache has a size of its own, between 1 and 4 GiB unless it is set."


def starts_in(repository: Repository, is_device: Callable[[str], bool]) -> list[Start]:
    """Return the measured starts in an answer repository.

    Args:
        repository: The repository; without any answers, there are none.
        is_device: Chooses by the device of a session.
    """
    revision = repository.head()
    if revision is None:
        return []
    sets, _ = readable_sets(repository, revision)
    return list(starts(((entry.manifest) for entry in sets), is_device))


def starts(manifests: Iterable[Manifest], is_device: Callable[[str], bool]) -> Iterator[Start]:
    """Yield the measured starts of sessions on a device."""
    for manifest in manifests:
        for session in manifest.sessions:
            other = None if session.memory is None else session.memory.other
            if other is not None and session.device and is_device(session.device):
                yield _start(manifest, session, session.device, other)


def _start(manifest: Manifest, session: Session, device: str, other: int) -> Start:
    return Start(
        model=manifest.specification.model.name,
        device=device,
        at=session.started_at,
        other=other,
        eager=bool(session.engine_settings.get("enforce_eager")),
    )


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
        source=f"{gib(assumed)} assumed ({ASSUMED_SHARE:.0%} of the GPU) for activations and CUDA graphs, which only a start "
        "can measure.",
    )


logger = logging.getLogger("regrade.plan")
_ELSEWHERE = (
    "Planned on a machine without such a GPU: its attention is assumed to keep blocks of 16 tokens, and steps to have vLLM's "
    "default size for its memory."
)
_QUANTISED_LATER = "vLLM quantises these weights while it loads them: their size may be that before, and what is kept is smaller."
_ADAPTER = "The adapter is not counted."


@dataclass(frozen=True, slots=True)
class _Question:
    """A plan to make."""

    request: PlanRequest
    engine: VllmEngine
    model: ResolvedModel
    plans: list[Plan]
    target: Target
    margin: Margin
    notes: tuple[str, ...]


def make_memory_plan(
    request: PlanRequest, *, log: Path, on_progress: Callable[[str], None] | None = None
) -> MemoryPlan:
    """Return the plan of a model on GPUs.

    Args:
        request: Model, GPUs and length.
        log: File for the output of vLLM.
        on_progress: Called with the name of each stage.

    Raises:
        SettingsError: If a setting is invalid, or contradicts the model or this machine.
        ModelError: If the model does not exist, or lacks what a plan needs.
    """
    given = given_target(request)
    engine = request.engine.model_copy(update={"lora": None})
    if request.max_model_len is not None:
        engine = engine.model_copy(update={"max_model_len": request.max_model_len})
    model = engine.resolve_to_plan(request.model, needs_tokenizer=request.has_benchmarks)
    plans = plans_of(request.job, model) if request.has_benchmarks else []
    planner = VllmPlanner(
        engine,
        model,
        target=None if given is None else (given.gpu or "", given.memory or 0),
        requests=chain.from_iterable(_requests(plan) for plan in plans),
        rendering=prompt_rendering(request.prompt),
        log=log,
        on_progress=on_progress,
    )
    machine: Machine | None = None
    length: Length | None = None

    def question(*notes: str) -> _Question:
        target = given or this_machine(request, machine)
        margin, more = margin_for(request, model.identity.name, target)
        return _Question(request, engine, model, plans, target, margin, (*notes, *more))

    try:
        with planner:
            machine, length = planner.machine, planner.length
            return _by_vllm(question(), planner)
    except CannotPlanError as error:
        logger.warning("estimated by a formula, because vLLM cannot tell: %s", error)
        reason = f"An estimate by a formula, because vLLM cannot tell: {str(error).rstrip('.')}."
    return _by_formula(question(reason), machine, length)


def _requests(plan: Plan) -> PlannedRequests:
    """Return one request for each question: repeats are as long."""
    return plan.requests([(sample, 0) for sample in plan.samples])


def _by_vllm(question: _Question, planner: VllmPlanner) -> MemoryPlan:
    """Return the plan by vLLM's own classes.

    Raises:
        CannotPlanError: If vLLM cannot build the model even for a single GPU.
    """
    target, reserved = question.target, question.margin.bytes
    length = planner.length
    alone = planner.split(1, 1, 1, reserved=reserved)
    if isinstance(alone, Refused):
        raise CannotPlanError(alone.reason)
    splits = []
    for split in _splits(question):
        memory: SplitMemory | Refused = alone
        if split != Split(1, 1, 1):
            memory = planner.split(split.tensor, split.pipeline, split.data, reserved=reserved)
        if isinstance(memory, Refused):
            rule = rule_against(
                split,
                heads=length.heads,
                kv_heads=length.kv_heads,
                vocabulary=length.vocabulary,
                layers=length.layers,
            )
            memory = Refused(rule or f"vLLM refuses it: {memory.reason}")
        splits.append(_split_plan(split, memory, reserved))
    question = replace(question, target=target.model_copy(update={"usable": alone.usable}))
    notes = [_ELSEWHERE] if planner.machine.is_cpu and target.memory is not None else []
    if question.engine.quantization is not None:
        notes.append(_QUANTISED_LATER)
    return MemoryPlan(
        **_common(question, length.max_model_len, length, splits, notes),
        method="vllm",
        vllm=planner.machine.version,
        parameters=alone.parameters,
        dtype=length.dtype,
    )


def _by_formula(question: _Question, machine: Machine | None, length: Length | None) -> MemoryPlan:
    """Return an estimate.

    Raises:
        SettingsError: If the length is not known, or the model is of another kind than the formula knows.
    """
    if length is None and question.request.has_benchmarks:
        raise SettingsError(
            f"{question.notes[0]} So the length of the benchmark's prompts is not known: give `--max-model-len` instead."
        )
    target, reserved = question.target, question.margin.bytes
    formula = formula_of(
        question.model,
        question.engine,
        is_cpu=target.memory is None,
        max_model_len=None if length is None else length.max_model_len,
    )
    splits = [
        _split_plan(split, formula.split(split, usable=target.usable, reserved=reserved), reserved)
        for split in _splits(question)
    ]
    return MemoryPlan(
        **_common(question, formula.max_model_len, length, splits, []),
        method="estimate",
        vllm=None if machine is None else machine.version,
        parameters=formula.sizes.parameters,
        dtype=formula.dtype,
    )


def _common(
    question: _Question,
    max_model_len: int,
    length: Length | None,
    splits: Sequence[SplitPlan],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return the fields of a plan that do not depend on its method."""
    choice = choose(splits, max_model_len)
    if length is not None and length.longest_prompt is not None:
        source = (
            f"the longest of {length.requests:,} requests of {', '.join(question.request.names)}: {length.longest_prompt:,} tokens "
            f"of prompt and {length.longest_answer:,} of answer, rounded up"
        )
    else:
        source = "as given" if question.engine.max_model_len else "the model's limit"
    more = (_ADAPTER,) if question.request.engine.lora else ()
    return {
        "model": question.model.identity.name,
        "revision": question.model.identity.revision,
        "target": question.target,
        "max_model_len": max_model_len,
        "length_source": source,
        "margin": question.margin,
        "splits": tuple(splits),
        "choice": choice,
        "advice": choice.reason
        if choice
        else what_would_fit(splits, question.target, question.margin),
        "notes": (*question.notes, *notes, *more),
    }


def _splits(question: _Question) -> list[Split]:
    """Return the splits of the GPUs, only those with the sizes that the engine's settings fix.

    Raises:
        SettingsError: If there is none.
    """
    engine = question.engine
    fixed = engine.model_fields_set
    splits = [
        split
        for split in splits_of(question.target.gpus)
        if ("tensor_parallel_size" not in fixed or split.tensor == engine.tensor_parallel_size)
        and (
            "pipeline_parallel_size" not in fixed or split.pipeline == engine.pipeline_parallel_size
        )
        and ("data_parallel_size" not in fixed or split.data == engine.data_parallel_size)
    ]
    if not splits:
        raise SettingsError(
            f"No split of {question.target.gpus} GPUs has the parallel sizes of the engine's settings. Leave them out, or set "
            "`--gpus` to a multiple of their product."
        )
    return splits


def _split_plan(split: Split, memory: SplitMemory | Refused, reserved: int) -> SplitPlan:
    sizes = {"tensor": split.tensor, "pipeline": split.pipeline, "data": split.data}
    if isinstance(memory, Refused):
        return SplitPlan(**sizes, refused=memory.reason)
    limit = psutil.virtual_memory().total if memory.usable is None else memory.usable
    lacking = 0
    for weights, room, needed in zip(memory.weights, memory.kv_cache, memory.needed, strict=True):
        # A KV cache of a given size may exceed the GPU; otherwise it is what the GPU has left.
        lacking = max(lacking, needed - room, weights + reserved + max(room, needed) - limit)
    return SplitPlan(
        **sizes,
        weights=memory.weights,
        kv_cache=memory.kv_cache,
        kv_cache_needed=memory.needed,
        tokens=memory.tokens,
        concurrency=memory.concurrency,
        lacking=lacking,
    )
