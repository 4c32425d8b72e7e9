"""Sealed files: Parquet files of generations, ready to be published."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from regrade.files import atomic_write, file_sha256


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A Parquet file ready to be published."""

    path: Path
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the sealed file at a path."""
        return cls(path, pq.read_metadata(path).num_rows, path.stat().st_size, file_sha256(path))


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table as Parquet (zstd), durably and atomically."""
    with atomic_write(path) as file:
        pq.write_table(table, file, compression="zstd", row_group_size=10_000)


def seal_table(table: pa.Table, path: Path) -> SealedFile:
    """Write a table of `GENERATION_SCHEMA` as a sealed file."""
    write_parquet(table, path)
    return SealedFile.at(path)
