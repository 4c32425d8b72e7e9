"""Scorers made of others: each row is scored by the one that fits it, or read by one and graded by a rule of its own."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from regrade.scorers.extraction import columns as c

BatchScore = Callable[[pa.RecordBatch], pa.RecordBatch]


def has_choices(batch: pa.RecordBatch) -> c.Mask:
    """True for rows with choices."""
    return c.mask(c.list_lengths(batch.column("choices")) > 0)


def scored_by(
    batch: pa.RecordBatch, mask: c.Mask, one: BatchScore, other: BatchScore
) -> pa.RecordBatch:
    """Return the scores of `one` for rows in which the mask is true, and those of `other` for the others."""
    if c.is_all(mask):
        return one(batch)
    if not c.is_any(mask):
        return other(batch)
    flags = mask.to_numpy(zero_copy_only=False)
    parts = pa.Table.from_batches(
        [one(batch.filter(mask)), other(batch.filter(c.negated(mask)))]
    ).combine_chunks()
    order = np.argsort(np.concatenate([np.flatnonzero(flags), np.flatnonzero(~flags)]))
    return parts.take(order).combine_chunks().to_batches()[0]


def with_values(scores: pa.RecordBatch, values: Sequence[float]) -> pa.RecordBatch:
    """Return scores with other values; failed rows keep theirs, null."""
    place = scores.schema.get_field_index("value")
    failed = np.asarray(scores.column(place).is_null())
    column = pa.array(np.asarray(values, np.float64), mask=failed)
    return scores.set_column(place, scores.schema.field(place), column)
