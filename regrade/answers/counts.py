"""Counts of the rows of a shard, by which sessions add up."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from regrade.answers.rows import failed_rows, refused_rows

COLUMNS = (
    "error",
    "error_permanent",
    "prompt_tokens",
    "completion_tokens",
    "finished_at",
    "label_method",
)
"""Columns of `GENERATION_SCHEMA` that are counted."""


def count_rows(batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Return the counts of a shard, as fields of `Shard`.

    Args:
        batches: Needs `COLUMNS`.
    """
    counts: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    seconds = 0.0
    for batch in batches:
        counts["failed"] += int(failed_rows(batch).sum())
        counts["refused"] += int(refused_rows(batch).sum())
        for name in ("prompt_tokens", "completion_tokens"):
            counts[name] += int(_numbers(batch, name).sum())
        seconds = max(seconds, float(_numbers(batch, "finished_at").max(initial=0.0)))
        methods.update(method for method in batch["label_method"].to_pylist() if method)
    return {
        **{
            name: counts[name]
            for name in ("failed", "refused", "prompt_tokens", "completion_tokens")
        },
        "seconds": seconds,
        "label_methods": dict(sorted(methods.items())),
    }


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
    values = batch[name].drop_null().to_numpy(zero_copy_only=False)
    return np.asarray(values, np.float64)
