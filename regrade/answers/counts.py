"""Counts of the rows of a shard, by which sessions add up."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
        failed = pc.is_valid(batch["error"])
        permanent = pc.fill_null(batch["error_permanent"], False)
        refused = pc.and_(failed, permanent)
        counts["refused"] += pc.sum(refused).as_py() or 0
        counts["failed"] += (pc.sum(failed).as_py() or 0) - (pc.sum(refused).as_py() or 0)
        for name in ("prompt_tokens", "completion_tokens"):
            counts[name] += pc.sum(batch[name]).as_py() or 0
        seconds = max(seconds, pc.max(batch["finished_at"]).as_py() or 0.0)
        for entry in pc.value_counts(batch["label_method"].drop_null()).to_pylist():
            methods[entry["values"]] += entry["counts"]
    return {
        "failed": counts["failed"],
        "refused": counts["refused"],
        "prompt_tokens": counts["prompt_tokens"],
        "completion_tokens": counts["completion_tokens"],
        "seconds": seconds,
        "label_methods": dict(sorted(methods.items())),
    }
