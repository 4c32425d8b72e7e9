"""Reading Parquet of strangers: column by column as expected, in batches that fit into memory whatever the file claims.

A few kilobytes can hold terabytes: a value that is repeated is stored once. Sizes are therefore looked at before
anything is decoded, and again before each batch is.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from regrade.errors import DamagedAnswersError
from regrade.records import SCHEMA_VERSION

BATCH_ROWS = 8192
BATCH_BYTES = 64 * 2**20
"""Text in a batch; a single row may have more."""
MAX_FILE_BYTES = 4 * 2**30
MAX_ROWS = 5_000_000
MAX_GROUP_BYTES = 2 * 2**30
"""Of a row group, as stored before compression."""
MAX_BATCH_BYTES = 2 * 2**30
"""Of what is not text: of lists, which Arrow unpacks whole."""
MAX_TEXT_BYTES = 64 * 2**20
"""Of one text."""
MAX_DECODED_BYTES = 16 * 2**30
"""Text in a file."""

_VERSION_KEY = b"regrade_schema_version"


class ParquetReader:
    """One Parquet file, checked on opening. Use it as an iterator of batches, once."""

    def __init__(self, name: str, local: Path, schema: pa.Schema, columns: Sequence[str]) -> None:
        """Open a file and check everything that can be known before decoding.

        Args:
            name: What errors call it: its path in the repository.
            local: Where it lies.
            schema: What its columns should be.
            columns: Those to read, out of `schema`.

        Raises:
            DamagedAnswersError: If it is not such a file, is newer than this version reads, or is absurdly large.
        """
        self._name, self._local = name, local
        self._schema, self._columns = schema, list(columns)
        with _readable(name), pq.ParquetFile(local) as file:
            self._metadata = file.metadata
            self._check_version(file.schema_arrow.metadata or {})
            self.names: tuple[str, ...] = tuple(file.schema_arrow.names)
            """All columns of the file."""
            self._check_columns(file.schema_arrow)
            self._check_sizes()

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self._metadata.num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the columns in the schema's types, a few thousand rows or about `BATCH_BYTES` of text at a time.

        Raises:
            DamagedAnswersError: If the content cannot be decoded, holds a null where there must be a value, or is
                absurdly large.
        """
        decoded = 0
        # What is repeated stays so until its size is known; what a file says of that itself may be a lie.
        texts = [name for name in self._columns if self._schema.field(name).type == pa.string()]
        with (
            _readable(self._name),
            pq.ParquetFile(self._local, metadata=self._metadata, read_dictionary=texts) as file,
        ):
            for batch in file.iter_batches(batch_size=self._batch_rows, columns=self._columns):
                batch.validate(full=True)  # places beyond the dictionary, texts that are not UTF-8
                self._check_nulls(batch)
                lengths = _text_lengths(batch)
                decoded += int(lengths.sum()) + batch.nbytes
                if (
                    lengths.max(initial=0) > MAX_TEXT_BYTES
                    or decoded > MAX_DECODED_BYTES
                    or batch.nbytes > MAX_BATCH_BYTES
                ):
                    raise DamagedAnswersError(
                        self._name,
                        f"it unpacks to texts of more than {MAX_TEXT_BYTES:,} bytes each or "
                        f"{MAX_DECODED_BYTES:,} bytes together.",
                    )
                for start, stop in _spans(lengths):
                    yield self._plain(batch.slice(start, stop - start))

    def table(self) -> pa.Table:
        """Return the whole file; see `batches`."""
        schema = pa.schema([self._schema.field(name) for name in self._columns])
        return pa.Table.from_batches(self.batches(), schema=schema)

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
            for column in (batch.column(name) for name in self._columns)
        ]
        fields = [self._schema.field(name) for name in self._columns]
        return pa.record_batch(arrays, schema=pa.schema(fields))

    def _check_version(self, metadata: dict[bytes, bytes]) -> None:
        written = metadata.get(_VERSION_KEY, str(SCHEMA_VERSION).encode())
        if not written.isdigit() or int(written[:9]) > SCHEMA_VERSION:
            shown = written[:20].decode(errors="replace")
            raise DamagedAnswersError(
                self._name,
                f"written with schema {shown}, this regrade reads up to {SCHEMA_VERSION}; upgrade regrade.",
            )

    def _check_columns(self, found: pa.Schema) -> None:
        for name in self._columns:
            types = [field.type for field in found if field.name == name]
            expected = self._schema.field(name).type
            if types != [expected]:
                shown = ", ".join(str(type_) for type_ in types) or "no such column"
                raise DamagedAnswersError(
                    self._name, f"column '{name}' should be {expected}, found {shown}."
                )

    def _check_sizes(self) -> None:
        # Not the sizes of single columns: asking for them, pyarrow ends the process where a file lies about some.
        groups = [self._metadata.row_group(i) for i in range(self._metadata.num_row_groups)]
        stored = max((group.total_byte_size for group in groups), default=0)
        for what, found, limit in (
            ("rows", self.rows, MAX_ROWS),
            ("bytes in a row group", stored, MAX_GROUP_BYTES),
        ):
            if not 0 <= found <= limit:
                raise DamagedAnswersError(
                    self._name, f"it claims {found:,} {what}; up to {limit:,} are read."
                )
        share = min(
            (BATCH_BYTES * g.num_rows // (g.total_byte_size + 1) for g in groups), default=1
        )
        self._batch_rows = max(1, min(BATCH_ROWS, share))

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        for name in self._columns:
            if not self._schema.field(name).nullable and batch.column(name).null_count:
                raise DamagedAnswersError(
                    self._name, f"column '{name}' has a null, where there must be a value."
                )


class _readable:  # noqa: N801 - reads as a statement
    """Turns what Arrow raises for content that it cannot read into `DamagedAnswersError`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # Arrow raises OSError for pages that are cut or do not decompress.
        if isinstance(error, (pa.ArrowException, OSError, UnicodeDecodeError)):
            reason = " ".join(str(error).split())[:200]
            raise DamagedAnswersError(self._name, f"not readable as Parquet: {reason}.") from error


def _text_lengths(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return, for each row, the bytes of text that are not decoded yet."""
    total = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            texts: pa.StringArray = column.dictionary  # type: ignore[assignment]
            of_values = pc.binary_length(texts).to_numpy(zero_copy_only=False)
            places = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            total += np.append(np.nan_to_num(of_values), 0).astype(np.int64)[places]
    return total


def _spans(lengths: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield first and last + 1 of runs of rows with about `BATCH_BYTES` of text."""
    ends = np.cumsum(lengths)
    start, n = 0, len(lengths)
    while start < n:
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        stop = max(start + 1, stop)
        yield start, stop
        start = stop
