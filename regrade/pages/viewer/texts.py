"""Texts of answers: read for the rows of a page, searched batch by batch, and never kept."""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache
from numpy.typing import NDArray

from regrade.answers.manifest import Shard
from regrade.answers.parquet import ParquetReader
from regrade.answers.sets import AnswerSet
from regrade.pages.viewer.index import Ints, Rows
from regrade.records.images import MARK

Mask = NDArray[np.bool_]
_Signature = tuple[int, int, int]
READERS_KEPT = 256
THREADS = min(4, os.cpu_count() or 1)
"""Shards that are decoded at the same time."""


class ShardReaders:
    """Readers of shards, by content: a shard is fetched and its hash checked once, unless its file changes."""

    def __init__(self) -> None:
        self._known: LRUCache[str, tuple[_Signature | None, ParquetReader]] = LRUCache(READERS_KEPT)
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="shards")

    def reader(self, answers: AnswerSet, shard: Shard, columns: Sequence[str]) -> ParquetReader:
        """Return the reader of some columns of a shard.

        Raises:
            DamagedAnswersError: If the shard does not match the manifest.
        """
        with self._lock:
            known = self._known.get(shard.sha256)
        if known is not None and _signature(known[1].local) == known[0]:
            return known[1].of(columns)
        reader = answers.shard(shard, columns)
        with self._lock:
            self._known[shard.sha256] = _signature(reader.local), reader
        return reader

    def batches(self, answers: AnswerSet, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of all rows, a few thousand at a time; questions that are withheld are null."""
        for shard in answers.manifest.shards:
            yield from self.reader(answers, shard, columns).batches()

    def take(self, answers: AnswerSet, rows: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return columns of some rows, in the given order.

        Args:
            answers: Answer set.
            rows: Numbers of rows, in stored order from 0.
            columns: Names out of `GENERATION_SCHEMA`.
        """
        wanted = np.asarray(rows, np.int64)
        readers: list[tuple[ParquetReader, list[int]]] = []
        places: list[Rows] = []
        start = 0
        for shard in answers.manifest.shards:
            inside = np.flatnonzero((wanted >= start) & (wanted < start + shard.rows))
            if inside.size:
                reader = self.reader(answers, shard, columns)
                readers.append((reader, (wanted[inside] - start).tolist()))
                places.append(inside)
            start += shard.rows
        if not readers:
            return pa.table({name: [] for name in columns})
        # Rows sorted by anything but their number are in all shards; decoding does not hold the interpreter's lock.
        pieces = list(self._threads.map(lambda part: part[0].take(part[1]), readers))
        order = np.argsort(np.concatenate(places))
        return pa.concat_tables(pieces).take(pa.array(order, pa.int64()))

    def add_images(
        self, answers: AnswerSet, rows: Sequence[int], texts: Sequence[dict[str, Any]]
    ) -> None:
        """Add the column `images` to the texts of rows: read only if a question or prompt has a mark, because lists take long.

        Args:
            answers: Answer set.
            rows: Numbers of rows.
            texts: Columns of these rows, with `question` or `prompt`.
        """
        asked = (text.get(name) for text in texts for name in ("question", "prompt"))
        images: list[Any] = [None] * len(texts)
        if any(MARK in text for text in asked if text is not None):
            images = self.take(answers, rows, ("images",))["images"].to_pylist()
        for text, shown in zip(texts, images, strict=True):
            text["images"] = shown

    def matches(self, answers: AnswerSet, column: str, text: str) -> tuple[Mask, Mask]:
        """Return two masks: rows whose text in a column contains another text, in any case of letters; rows with a text."""
        found, present = [np.zeros(0, np.bool_)], [np.zeros(0, np.bool_)]
        for batch in self.batches(answers, (column,)):
            found.append(_contains(batch[column], text))
            valid = batch[column].is_valid().to_numpy(zero_copy_only=False)
            present.append(valid.astype(np.bool_))
        return np.concatenate(found), np.concatenate(present)

    def characters(self, answers: AnswerSet) -> Ints:
        """Return the length of each answer in characters; 0 without a text."""
        lengths = [np.zeros(0, np.int32)]
        for batch in self.batches(answers, ("text",)):
            texts: pa.StringArray = batch["text"]  # type: ignore[assignment]
            counted = pc.utf8_length(texts).fill_null(0)
            lengths.append(counted.to_numpy(zero_copy_only=False).astype(np.int32))
        return np.concatenate(lengths)


def _contains(texts: "pa.Array[Any]", text: str) -> Mask:
    # Case-insensitive matching is a regular expression, an order of magnitude slower: only for letters with two cases.
    fold = text.lower() != text.upper()
    found = pc.match_substring(texts, text, ignore_case=fold).fill_null(False)
    return found.to_numpy(zero_copy_only=False).astype(np.bool_)


def _signature(path: Path) -> _Signature | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
