"""Named values of each answer beside its score, such as strict and loose accuracy, and their means."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from regrade.settings import StrictModel
from regrade.settings.turn_ids import question_ids
from regrade.stats.estimates import FloatArray, clustered_standard_error


class NamedMetric(StrictModel):
    """Mean of a named value over the rows that have it."""

    value: float
    stderr: float | None
    """Standard error of the mean, clustered by question if questions were repeated or have turns; None below 2 questions."""
    n: int
    """Rows that have the value."""


class Aggregate(StrictModel):
    """Result over many rows, beside the accuracy."""

    subset: str
    """Subset or group of subsets; "" for all rows."""
    name: str
    value: float
    stderr: float | None = None
    n: int
    """Rows behind the result."""


def named_metrics(scores: pa.Table) -> dict[str, NamedMetric]:
    """Return the mean of each named value, by name in the order of first appearance.

    Args:
        scores: Needs `sample_id`; without the column `metrics` there are none.
    """
    if "metrics" not in scores.schema.names or scores["metrics"].null_count == len(scores):
        return {}
    values: dict[str, list[float]] = {}
    samples: dict[str, list[str]] = {}
    texts, ids = scores["metrics"].to_pylist(), scores["sample_id"].to_pylist()
    for text, sample in zip(texts, ids, strict=True):
        for name, value in row_metrics(text).items():
            values.setdefault(name, []).append(value)
            samples.setdefault(name, []).append(str(sample))
    return {name: _mean(np.array(values[name]), question_ids(samples[name])) for name in values}


def row_metrics(text: str | None) -> Mapping[str, float]:
    """Return the finite numbers among the named values of a row; a scorer may keep other values for `aggregates`."""
    values: Mapping[str, Any] = {} if text is None else orjson.loads(text)
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and np.isfinite(value)
    }


def _mean(values: FloatArray, samples: list[str]) -> NamedMetric:
    _, cluster = np.unique(np.array(samples), return_inverse=True)
    n_samples = int(cluster.max()) + 1
    error = clustered_standard_error(values, cluster) if n_samples > 1 else None
    return NamedMetric(value=float(values.mean()), stderr=error, n=len(values))
