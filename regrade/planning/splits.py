"""Splits of GPUs into tensor, pipeline and data parallel, and why a model cannot be split."""

import math
from dataclasses import dataclass

_PADDED = 64
"""vLLM pads the vocabulary to a multiple of this, in rows of the embedding."""


@dataclass(frozen=True, slots=True)
class Split:
    """GPUs of a model: `tensor` share each layer, `pipeline` groups hold a part of the layers, `data` copies of all."""

    tensor: int
    pipeline: int
    data: int

    def __str__(self) -> str:
        return f"TP {self.tensor} x PP {self.pipeline} x DP {self.data}"


def splits_of(gpus: int) -> list[Split]:
    """Return all splits that use a number of GPUs, by size of tensor and pipeline parallel."""
    divisors = [n for n in range(1, gpus + 1) if gpus % n == 0]
    return [
        Split(tensor, pipeline, gpus // (tensor * pipeline))
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
