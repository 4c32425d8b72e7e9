"""Make the plan of a model's memory: by vLLM, or by a formula if vLLM cannot tell."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from regrade.answer_plan import Plan, PlannedRequests, prompt_rendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.planner import (
    CannotPlanError,
    Length,
    Machine,
    Refused,
    SplitMemory,
    VllmPlanner,
)
from regrade.errors import SettingsError
from regrade.job_plans import plans_of
from regrade.models import ResolvedModel
from regrade.planning.estimate import formula_of
from regrade.planning.measured import margin_for
from regrade.planning.plan import Margin, MemoryPlan, SplitPlan, Target, choose, what_would_fit
from regrade.planning.request import PlanRequest
from regrade.planning.splits import Split, rule_against, splits_of
from regrade.planning.targets import given_target, this_machine

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
