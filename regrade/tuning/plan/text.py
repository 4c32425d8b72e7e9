"""The page of a plan of a model's memory."""

from regrade.stats.speed import gib
from regrade.text.blocks import Block, Heading, Items, Line, Table
from regrade.tuning.plan.plan import MemoryPlan, SplitPlan

COLUMNS = (
    "split",
    "weights per GPU",
    "KV cache per GPU",
    "tokens per copy",
    "at once per copy",
    "at once in all",
    "fits",
)


def blocks(plan: MemoryPlan) -> list[Block]:
    """Return the page of a plan."""
    rows = [_row(split, plan) for split in plan.splits if split.refused is None]
    return [
        Heading(headline(plan), tone="good" if plan.choice else "bad"),
        Line(plan.advice[:1].upper() + plan.advice[1:]),
        Table(COLUMNS, rows, ("split", "fits")),
        Items([*fact_lines(plan), *refused_lines(plan)]),
    ]


def _row(split: SplitPlan, plan: MemoryPlan) -> tuple[str, ...]:
    chosen = plan.choice is not None and plan.choice.name == split.name
    fits = f"no, {gib(split.lacking)} per GPU too little" if split.lacking else "yes"
    return (
        split.name,
        _range(split.weights),
        _range(split.kv_cache) if min(split.kv_cache) > 0 else "none",
        "-" if split.tokens is None else f"{split.tokens:,}",
        "-" if split.concurrency is None else f"{split.concurrency:,.1f}",
        "-" if split.concurrency is None else f"{split.total_concurrency:,.1f}",
        "yes, begin with this" if chosen else fits,
    )


def refused_lines(plan: MemoryPlan) -> list[str]:
    """Return a line per reason why splits are refused, with the splits."""
    reasons: dict[str, list[str]] = {}
    for split in plan.splits:
        if split.refused is not None:
            reasons.setdefault(split.refused, []).append(split.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def headline(plan: MemoryPlan) -> str:
    """Return the first choice in a line, or that nothing fits."""
    if plan.choice is None:
        return f"{plan.model} does not fit on {plan.target.title}"
    return f"{plan.model} on {plan.target.title}: begin with {plan.choice.name}"


def fact_lines(plan: MemoryPlan) -> list[str]:
    """Return the assumptions of the plan: model, machine, length, margin, and notes."""
    return [
        f"model: {plan.model}, {plan.parameters:,} parameters, {plan.dtype} (by vLLM {plan.vllm})",
        f"machine: {plan.target.title}{_usable(plan)}",
        f"length: {plan.max_model_len:,} tokens, {plan.length_source}",
        f"margin: {plan.margin.source}",
        *(f"note: {note}" for note in plan.notes),
    ]


def _usable(plan: MemoryPlan) -> str:
    return f", vLLM may use {gib(plan.target.usable)} of each" if plan.target.usable else ""


def _range(sizes: tuple[int, ...]) -> str:
    """Return the sizes of the stages: one if they are alike."""
    texts = dict.fromkeys((gib(min(sizes)), gib(max(sizes))))
    return " to ".join(texts)
