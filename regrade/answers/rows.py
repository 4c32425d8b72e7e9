"""Keys of rows, and whether a row answers its question or its request may be sent again."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

RowKey = tuple[str, int]
"""`sample_id` and `repeat` of a row."""
STATE_COLUMNS = ("sample_id", "repeat", "error", "error_permanent")


@dataclass(slots=True)
class RowStates:
    """Keys of rows by their state; a row that succeeded takes precedence over one that failed."""

    done: set[RowKey] = field(default_factory=set)
    """Rows with an answer, or with an error that asking again cannot help."""
    failed: set[RowKey] = field(default_factory=set)
    """Rows whose request failed and may succeed if it is sent again."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows with `STATE_COLUMNS`."""
        mask = failed_rows(batch)
        for key, failed in zip(row_keys(batch), mask, strict=True):
            (self.failed if failed else self.done).add(key)
        self.failed -= self.done

    def update(self, other: "RowStates") -> None:
        """Add the rows of another part of the same answer set."""
        self.done |= other.done
        if self.failed or other.failed:
            self.failed = (self.failed | other.failed) - self.done


class ShardStates(dict[str, RowStates]):
    """States of the rows of shards, by sha256 of the shard. Several threads may ask for them together."""

    def __init__(self, *states: Mapping[str, RowStates], **more: RowStates) -> None:
        super().__init__(*states, **more)
        self._guard = threading.Lock()
        self._shards: frozenset[str] = frozenset()
        self._together = RowStates()

    def together(self, shards: Iterable[str]) -> RowStates:
        """Return the states of all rows of some shards; the next call changes the returned object.

        Only shards that the last call did not have are added, so that the time of a commit does not grow with the answer
        set.
        """
        wanted = frozenset(shards)
        with self._guard:
            if not self._shards <= wanted:
                self._shards, self._together = frozenset(), RowStates()
            for shard in wanted - self._shards:
                self._together.update(self[shard])
            self._shards = wanted
            return self._together


def row_states(batches: Iterable[pa.RecordBatch]) -> RowStates:
    """Return the states of rows with `STATE_COLUMNS`."""
    states = RowStates()
    for batch in batches:
        states.add(batch)
    return states


def row_keys(rows: pa.RecordBatch | pa.Table) -> Iterator[RowKey]:
    """Yield the sample and repeat of every row."""
    ids, repeats = rows["sample_id"].to_pylist(), rows["repeat"].to_pylist()
    return ((str(i), int(r or 0)) for i, r in zip(ids, repeats, strict=True))


def failed_rows(rows: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return a mask: True for a row whose request failed and may succeed if it is sent again."""
    return _mask(rows["error"].is_valid()) & ~_mask(rows["error_permanent"].fill_null(False))


def refused_rows(rows: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return a mask: True for a row whose request cannot succeed."""
    return _mask(rows["error"].is_valid()) & _mask(rows["error_permanent"].fill_null(False))


def _mask(values: "pa.Array[Any]") -> NDArray[np.bool_]:
    return values.to_numpy(zero_copy_only=False).astype(np.bool_)
