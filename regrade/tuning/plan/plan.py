"""The plan of a model's memory on GPUs: what fits, and how many requests at a time."""

import math
from collections.abc import Sequence

from pydantic import Field

from regrade.engines.vllm_process.settings import PARALLEL
from regrade.settings import StrictModel
from regrade.stats.speed import gib

_PADDED = 64
"""vLLM pads the vocabulary to a multiple of this, in rows of the embedding."""
ENOUGH = 100
"""Requests at the same time in one copy of the model above which more GPUs for a copy gain less than more copies."""


class Target(StrictModel):
    """The machine for which a plan is made."""

    gpu: str | None
    """Name of the GPU; None: only its memory is given, or a CPU."""
    gpus: int = Field(ge=1)
    """Number of GPUs; 1 for a CPU."""
    memory: int | None
    """Memory of a GPU in bytes; None for a CPU."""
    usable: int | None
    """Bytes of a GPU that vLLM may use (`gpu_memory_utilization`); None for a CPU."""

    @property
    def title(self) -> str:
        """The machine in words."""
        if self.memory is None:
            return self.gpu or "CPU"
        name = f"{self.gpu} of " if self.gpu else "GPU of "
        return f"{self.gpus} x {name}{gib(self.memory)}"


class Margin(StrictModel):
    """Memory of a GPU that is neither weights nor KV cache: activations, CUDA graphs, CUDA itself."""

    bytes: int = Field(ge=0)
    measured: bool
    """An engine measured it at its start; otherwise it is assumed."""
    source: str
    """Its origin, in a sentence."""


class Split(StrictModel):
    """GPUs of a model: `tensor` share each layer, `pipeline` groups hold a part of the layers, `data` copies of all."""

    tensor: int
    pipeline: int
    data: int

    @property
    def settings(self) -> dict[str, int]:
        """The engine settings of the split."""
        return dict(zip(PARALLEL, (self.tensor, self.pipeline, self.data), strict=True))

    @property
    def name(self) -> str:
        """The split in words."""
        return f"TP {self.tensor} x PP {self.pipeline} x DP {self.data}"


class SplitPlan(Split):
    """A split, in bytes for one GPU and tokens for one copy of the model."""

    refused: str | None = None
    """Reason why the model cannot be split so; nothing below is known then."""
    weights: tuple[int, ...] = ()
    """By pipeline stage; the stages with the first and the last layers also hold the embeddings."""
    kv_cache: tuple[int, ...] = ()
    """Room for the KV cache, by pipeline stage; negative if the weights leave none."""
    kv_cache_needed: tuple[int, ...] = ()
    """KV cache for one request of the greatest length."""
    tokens: int | None = None
    """Tokens that the KV cache holds."""
    concurrency: float | None = None
    """Requests of the greatest length that one copy holds at the same time."""
    lacking: int = 0
    """Bytes that a GPU lacks for the weights, the margin and one request; 0: it fits."""

    @property
    def fits(self) -> bool:
        """The weights, the margin and at least one request fit."""
        return self.refused is None and not self.lacking

    @property
    def total_concurrency(self) -> float:
        """Requests of the greatest length that all copies hold at the same time."""
        return (self.concurrency or 0.0) * self.data


class ChosenSplit(Split):
    """The split to begin with."""

    reason: str


class MemoryPlan(StrictModel):
    """Plan of a model's memory."""

    model: str
    revision: str
    parameters: int
    """Number of parameters; a packed element of a quantised weight counts once."""
    vllm: str
    """Version of vLLM."""
    target: Target
    dtype: str
    max_model_len: int
    """Tokens of prompt and answer together for which the plan is made."""
    length_source: str
    """Origin of the length, in words."""
    margin: Margin
    splits: tuple[SplitPlan, ...]
    choice: ChosenSplit | None
    """The split to begin with; None if none fits."""
    advice: str
    """Advice in a sentence: the reason of the choice, or what would fit."""
    notes: tuple[str, ...] = ()

    @property
    def to_try(self) -> list[SplitPlan]:
        """The splits that fit: the choice first, then those whose KV cache holds most."""
        first = None if self.choice is None else self.choice.settings
        return sorted(
            (split for split in self.splits if split.fits),
            key=lambda split: (split.settings != first, split.pipeline, -split.total_concurrency),
        )


def splits_of(gpus: int) -> list[SplitPlan]:
    """Return all splits that use a number of GPUs, by size of tensor and pipeline parallel, without their memory."""
    divisors = [n for n in range(1, gpus + 1) if gpus % n == 0]
    return [
        SplitPlan(tensor=tensor, pipeline=pipeline, data=gpus // (tensor * pipeline))
        for tensor in divisors
        for pipeline in divisors
        if gpus % (tensor * pipeline) == 0
    ]


def rule_against(
    split: Split, *, heads: int, kv_heads: int, vocabulary: int, layers: int
) -> str | None:
    """Return the rule that a split breaks, in a sentence; None if it breaks none of those known here.

    Args:
        split: The split.
        heads: Attention heads of the model.
        kv_heads: Heads of keys and values.
        vocabulary: Tokens in the vocabulary.
        layers: Number of layers.
    """
    n = split.tensor
    if heads % n:
        return f"The model has {heads} attention heads, which {n} GPUs cannot share equally."
    if max(kv_heads, n) % min(kv_heads, n):
        return (
            f"The model has {kv_heads} heads of keys and values: {n} GPUs can neither share them equally nor hold equally "
            "many copies of each."
        )
    rows = math.ceil(vocabulary / _PADDED) * _PADDED
    if rows % n:
        return (
            f"The vocabulary of {vocabulary:,} tokens takes {rows:,} rows with vLLM's padding, which {n} GPUs cannot "
            "share equally."
        )
    if split.pipeline > layers:
        return f"The model has {layers} layers, too few for {split.pipeline} groups."
    return None


def choose(splits: Sequence[SplitPlan], max_model_len: int) -> ChosenSplit | None:
    """Return the split to begin with: the fewest GPUs per copy that hold about 100 requests, the rest as copies.

    A copy more needs no communication between GPUs. A copy with little room for requests uses its GPUs badly, so that
    without one that holds 100, the split with the most room in all its copies is chosen. Pipeline parallel only if
    nothing else fits.
    """
    fitting = [split for split in splits if split.fits]
    flat = [split for split in fitting if split.pipeline == 1]
    candidates = sorted(flat or fitting, key=lambda split: (split.pipeline, split.tensor))
    if not candidates:
        return None
    length = f"{max_model_len:,} tokens"
    unlimited = [split for split in candidates if split.concurrency is None]
    enough = [split for split in candidates if (split.concurrency or 0) >= ENOUGH]
    if len(splits) == 1:
        chosen = candidates[0]
        holds = f"holds {_times(chosen.concurrency)} requests of {length} at a time"
        reason = "it fits" if unlimited else f"it fits, and its KV cache {holds}"
    elif unlimited:
        chosen = unlimited[0]
        reason = "the model keeps no KV cache, so the fewest GPUs per copy that hold the weights"
    elif enough:
        chosen = enough[0]
        reason = (
            f"the fewest GPUs per copy whose KV cache holds at least {ENOUGH} requests of {length} "
            f"({_times(chosen.concurrency)})"
        )
    else:
        chosen = max(candidates, key=lambda split: split.total_concurrency)
        reason = (
            f"no copy holds {ENOUGH} requests of {length}; this split holds most at a time "
            f"({_times(chosen.total_concurrency)} in all copies)"
        )
    if chosen.data > 1:
        reason += f", and {chosen.data} copies of the model use all GPUs"
    if not flat:
        reason += "; without pipeline parallel nothing fits"
    return ChosenSplit(
        tensor=chosen.tensor, pipeline=chosen.pipeline, data=chosen.data, reason=f"{reason}."
    )


def _times(concurrency: float | None) -> str:
    return f"{concurrency or 0:,.1f}" if (concurrency or 0) < ENOUGH else f"{concurrency:,.0f}"


def what_would_fit(splits: Sequence[SplitPlan], target: Target, margin: Margin) -> str:
    """Name the split that lacks the least memory, the missing amount, and a change that helps."""
    known = [split for split in splits if split.refused is None]
    if not known:
        return "vLLM refuses every split of these GPUs."
    closest = min(known, key=lambda split: split.lacking)
    text = f"{closest.name} lacks least, {gib(closest.lacking)} on each GPU."
    if target.usable is None:
        return f"{text} Use a smaller or quantised model, or a shorter length."
    room = target.usable - margin.bytes - max(closest.kv_cache_needed)
    if room > 0:
        weights = sum(closest.weights) * closest.tensor
        text += f" The weights need at least {math.ceil(weights / room)} such GPUs for a copy."
    return f"{text} Use more or larger GPUs, a quantised checkpoint, or a shorter length."
