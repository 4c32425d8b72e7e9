"""Sealed files: Parquet files of generations, ready to be published."""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from regrade.files import atomic_write, file_sha256

GROUP_ROWS = 2_000
"""Most rows in a row group: 50 answers from all over a set are read from 50 groups (the viewer, sorted by length)."""
GROUP_BYTES = 16 * 2**20
"""Size of a row group in bytes, before compression; a single row may exceed it.

Readers decode at least a page of a group, and the Hub's viewer reads no group above 286 MiB.
"""
_SESSION = re.compile(r"-([0-9a-f]{12})\.parquet$")


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A Parquet file ready to be published."""

    path: Path
    rows: int
    bytes: int
    sha256: str
    session: str | None = None
    """Session that generated the rows; None: not known."""

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the sealed file at a path; its name ends in the session, if known."""
        session = _SESSION.search(path.name)
        rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
        return cls(path, rows, size, file_sha256(path), session and session[1])


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table as Parquet (zstd), durably and atomically."""
    with atomic_write(path) as file:
        _write(table, file)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as Parquet (zstd)."""
    buffer = io.BytesIO()
    _write(table, buffer)
    return buffer.getvalue()


def seal_table(table: pa.Table, path: Path) -> SealedFile:
    """Write a table of `GENERATION_SCHEMA` as a sealed file."""
    write_parquet(table, path)
    return SealedFile.at(path)


def _write(table: pa.Table, file: BinaryIO) -> None:
    """Write row groups of bounded size, with a page index: a reader of one answer need not decode a whole group."""
    row_bytes = table.nbytes // max(1, table.num_rows) + 1
    with pq.ParquetWriter(file, table.schema, compression="zstd", write_page_index=True) as writer:
        start = 0
        while start < table.num_rows:
            stop = _group_end(table, start, min(GROUP_ROWS, max(1, GROUP_BYTES // row_bytes)))
            writer.write_table(table.slice(start, stop - start))
            start = stop


def _group_end(table: pa.Table, start: int, rows: int) -> int:
    """Return the end of a row group from `start`: `rows` later, or earlier if these rows are larger than average."""
    while rows > 1 and table.slice(start, rows).nbytes > 2 * GROUP_BYTES:
        rows //= 2
    return min(table.num_rows, start + rows)
