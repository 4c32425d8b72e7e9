"""Read untrusted Parquet files: expected columns only, in batches that fit into memory.

A few kilobytes can decode to terabytes, because a repeated value is stored once. Sizes are therefore checked before
decoding, first of the file and then of each batch.
"""

import errno
import io
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from regrade.processes.lasting import lasting_process
from regrade.processes.limited import LimitedProcesses, Limits, Stopped
from regrade.records.columns import ADDED_COLUMNS, SCHEMA_VERSION
from regrade.settings.errors import DamagedAnswersError, OperationError
from regrade.settings.files import atomic_write, file_sha256

BATCH_ROWS = 8192
"""Most rows per batch."""
TAKE_ROWS = 1024
"""Least rows per batch while single rows are taken; reading stops after the last of them."""
BATCH_BYTES = 64 * 2**20
"""Text per batch, in bytes; a single row may exceed it."""
MAX_FILE_BYTES = 4 * 2**30
"""Largest file read, in bytes."""
MAX_ROWS = 5_000_000
MAX_GROUP_BYTES = 2 * 2**30
"""Largest row group, in bytes before compression."""
MAX_BATCH_BYTES = 2 * 2**30
"""Largest batch before its text is decoded, in bytes: Arrow decodes lists at once."""
MAX_TEXT_BYTES = 64 * 2**20
"""Longest text, in bytes."""
MAX_DECODED_BYTES = 16 * 2**30
"""Largest file after decoding, in bytes."""

_SMALL_FILE_BYTES = 2 * 2**30
"""Size after decoding that a file may have however small it is, in bytes."""
_EXPANSION = 8
"""Size of a file after decoding, as a multiple of its own, that larger files may have."""
_MAX_VALUES = 100_000_000
"""Most values of a file that becomes Python objects."""

_MOVES = 5
"""Most times that a file is looked for again while other processes move it."""
_VERSION_KEY = b"regrade_schema_version"
Result = TypeVar("Result")


class ParquetReader:
    """A Parquet file, checked on opening."""

    def __init__(
        self,
        name: str,
        local: Path,
        schema: pa.Schema,
        columns: Sequence[str],
        again: Callable[[], Path] | None = None,
    ) -> None:
        """Open a file and check everything that can be checked before decoding.

        Args:
            name: Name in error messages: the path in the repository.
            local: Local path.
            schema: Expected schema.
            columns: Columns of `schema` to read.
            again: Returns its local path again, if another process has moved the file, as commits do.

        Raises:
            DamagedAnswersError: If it does not match, was written by a newer regrade, or is too large.
        """
        self._name, self._local, self._expected, self._again = name, local, schema, again
        self._sound_lists: set[str] = set()
        with _readable(name), self._with_file(pq.ParquetFile) as file:
            self._metadata = file.metadata
            self._found = file.schema_arrow
            self._check_version(self._found.metadata or {})
            self.names: tuple[str, ...] = tuple(self._found.names)
            """All columns of the file."""
            self._choose(columns)
            self._check_sizes()

    def of(self, columns: Sequence[str]) -> Self:
        """Return a reader of other columns, without opening the file again.

        Raises:
            DamagedAnswersError: If a column does not match.
        """
        other = copy(self)
        other._choose(columns)
        return other

    @property
    def local(self) -> Path:
        """Local path of the file."""
        return self._local

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self._metadata.num_rows)

    @property
    def _stored(self) -> list[str]:
        """Columns to read that the file has."""
        return [name for name in self._columns if name in self.names]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of up to `BATCH_ROWS` rows and about `BATCH_BYTES` of text, in the schema's types.

        Raises:
            DamagedAnswersError: If the content cannot be decoded, has a null in a required column, or is too large.
        """
        yield from self._decoded(None, self._batch_rows)

    def take(self, rows: Sequence[int]) -> pa.Table:
        """Return single rows in the given order, decoding only the row groups that hold them; errors as in `batches`.

        Args:
            rows: Numbers of rows, from 0.
        """
        sizes = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        wanted = np.unique(np.asarray(rows, np.int64))
        pieces, start = [pa.RecordBatch.from_pylist([], schema=self._schema)], 0
        for group, size in enumerate(sizes):
            inside = wanted[(wanted >= start) & (wanted < start + size)] - start
            pieces += self._of_group(group, inside)
            start += size
        table = pa.Table.from_batches(pieces, schema=self._schema)
        return table.take(pa.array(np.searchsorted(wanted, np.asarray(rows, np.int64)), pa.int64()))

    def _of_group(self, group: int, rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """Yield the given rows of a row group, in ascending order."""
        if not rows.size:
            return
        start = 0
        # Many small batches of encoded text take longer than a large one.
        size = min(self._batch_rows, max(TAKE_ROWS, int(rows[-1]) + 1))
        for batch in self._decoded([group], size):
            stop = start + batch.num_rows
            inside = rows[(rows >= start) & (rows < stop)] - start
            if inside.size:
                yield batch.take(pa.array(inside, pa.int64()))
            if rows[-1] < stop:
                return
            start = stop

    def _decoded(self, groups: Sequence[int] | None, size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of some row groups (None: all), at most `size` rows each."""
        decoded = 0
        self._refuse_long_lists()
        # Text stays dictionary-encoded until its size is known: sizes in the file's metadata may be false.
        texts = [name for name in self._stored if self._schema.field(name).type == pa.string()]
        with (
            _readable(self._name),
            self._with_file(
                partial(pq.ParquetFile, metadata=self._metadata, read_dictionary=texts)
            ) as file,
        ):
            for batch in file.iter_batches(
                batch_size=size,
                columns=self._stored,
                row_groups=None if groups is None else list(groups),
                use_threads=groups is None,  # for one small group, threads take half as long again
            ):
                batch.validate(full=True)  # indices beyond the dictionary, invalid UTF-8
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
                        f"it decodes to more than the limit of {MAX_TEXT_BYTES:,} bytes per text or "
                        f"{MAX_DECODED_BYTES:,} bytes in total.",
                    )
                for start, stop in _spans(lengths):
                    yield self._plain(batch.slice(start, stop - start))

    def _with_file(self, use: Callable[[Path], Result]) -> Result:
        """Return what is made of the file, which another process may move meanwhile; once open, it stays readable."""
        for _ in range(_MOVES):
            with suppress(FileNotFoundError):
                found = use(self._local)
                if self._again is None or self._local.is_file():
                    return found
            if self._again is None:
                break
            self._local = self._again()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._local))

    def _refuse_long_lists(self) -> None:
        """Decode what is no plain text or number in a child process first, once: a single row can hold billions of values."""
        lists = {name for name in self._stored if pa.types.is_nested(self._schema.field(name).type)}
        if not lists - self._sound_lists:
            return
        columns, most = sorted(lists), MAX_DECODED_BYTES
        if problem := self._with_file(lambda path: bomb_in(path, columns, self._batch_rows, most)):
            raise DamagedAnswersError(self._name, f"{problem}.")
        self._sound_lists |= lists  # of all readers of this file: see `of`

    def table(self) -> pa.Table:
        """Return the whole file as a table; errors as in `batches`."""
        return pa.Table.from_batches(self.batches(), schema=self._schema)

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for field in self._schema:
            if field.name not in self._stored:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            column = batch.column(field.name)
            if isinstance(column, pa.DictionaryArray):
                column = column.dictionary_decode()
            arrays.append(column)
        return pa.record_batch(arrays, schema=self._schema)

    def _check_version(self, metadata: dict[bytes, bytes]) -> None:
        written = metadata.get(_VERSION_KEY, str(SCHEMA_VERSION).encode())
        if not written.isdigit() or int(written[:9]) > SCHEMA_VERSION:
            shown = written[:20].decode(errors="replace")
            raise DamagedAnswersError(
                self._name,
                f"written with schema {shown}, this regrade reads up to {SCHEMA_VERSION}; upgrade regrade.",
            )

    def _choose(self, columns: Sequence[str]) -> None:
        """Read these columns; they are checked."""
        self._columns = list(columns)
        self._schema = pa.schema([self._expected.field(name) for name in columns])
        for name in columns:
            types = [field.type for field in self._found if field.name == name]
            if not types and name in ADDED_COLUMNS:
                continue  # null: a file of version 1, or of another tool
            expected = self._schema.field(name).type
            if types != [expected]:
                shown = ", ".join(str(type_) for type_ in types) or "no such column"
                raise DamagedAnswersError(
                    self._name, f"column '{name}' should be {expected}, found {shown}."
                )

    def _check_sizes(self) -> None:
        # Not the sizes of single columns: pyarrow crashes on reading them if the metadata is false.
        groups = [self._metadata.row_group(i) for i in range(self._metadata.num_row_groups)]
        largest = max((group.total_byte_size for group in groups), default=0)
        for what, claimed, limit in (
            ("rows", self.rows, MAX_ROWS),
            ("bytes in a row group", largest, MAX_GROUP_BYTES),
        ):
            if not 0 <= claimed <= limit:
                raise DamagedAnswersError(
                    self._name, f"it claims {claimed:,} {what}, the limit is {limit:,}."
                )
        share = min(
            (BATCH_BYTES * g.num_rows // (g.total_byte_size + 1) for g in groups), default=1
        )
        self._batch_rows = max(1, min(BATCH_ROWS, share))

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        for name in self._stored:
            if not self._schema.field(name).nullable and batch.column(name).null_count:
                raise DamagedAnswersError(
                    self._name, f"column '{name}' has a null, but needs a value in every row."
                )


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in fewer of at most `BATCH_ROWS` and about `BATCH_BYTES`, as of many small shards."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + len(batch) > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
            yield pa.concat_batches(waiting)  # type: ignore[attr-defined]  # missing in its stubs
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
    if waiting:
        yield pa.concat_batches(waiting)  # type: ignore[attr-defined]  # missing in its stubs


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Convert Arrow's errors about unreadable content into `DamagedAnswersError`."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow raises OSError for truncated pages and failed decompression.
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DamagedAnswersError(name, f"not readable as Parquet: {reason}.") from error


def _text_lengths(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the length in bytes of the encoded text of each row."""
    total = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            texts: pa.StringArray = column.dictionary  # type: ignore[assignment]
            of_values = pc.binary_length(texts).to_numpy(zero_copy_only=False)
            places = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            total += np.append(np.nan_to_num(of_values), 0).astype(np.int64)[places]
    return total


def _spans(lengths: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield start and stop of runs of rows with about `BATCH_BYTES` of text."""
    ends = np.cumsum(lengths)
    start, n = 0, len(lengths)
    while start < n:
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        stop = max(start + 1, stop)
        yield start, stop
        start = stop


# Bombs: files whose values are stored once and repeated. Only decoding shows their size, so a child process does it first.


def bomb_in(
    path: Path,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
    most: int | None = None,
) -> str | None:
    """Return the reason why a Parquet file must not be decoded in this process; None if it may, or cannot be read.

    Args:
        path: The file.
        columns: Columns that will be read. None: all, and their values become Python objects.
        rows: Rows per batch. None: as many as the first row group has.
        most: Largest size after decoding, in bytes. None: `_SMALL_FILE_BYTES`, for larger files `_EXPANSION` times theirs.
    """
    if most is None:
        most = max(_SMALL_FILE_BYTES, _EXPANSION * path.stat().st_size)
    values = _MAX_VALUES if columns is None else most
    limits = {"bytes": most, "values": values}
    asked = {
        "path": str(path),
        "columns": columns and list(columns),
        "rows": rows,
        "limits": limits,
    }
    found = _decoder().compute(asked)
    if isinstance(found, Stopped):
        problem = {
            "memory": f"takes more than {MAX_BATCH_BYTES:,} bytes",
            "crash": "cannot be read",
        }
        return f"a batch of its rows {problem.get(found.limit, 'takes too long')} once decompressed"
    assert isinstance(found, list)  # noqa: S101 - see `measured`
    return next(
        (f"it has more than {limits[str(unit)]:,} {unit} once decompressed" for unit in found), None
    )


def measured(asked: Mapping[str, Any]) -> list[str]:
    """Return the limits that the values of a file exceed, as far as it can be read; runs in a child process."""
    size, limits = {"bytes": 0, "values": 0}, asked["limits"]
    try:
        with pq.ParquetFile(asked["path"]) as file:
            if not file.metadata.num_row_groups:
                return []
            size["values"] = file.metadata.num_rows * len(file.schema_arrow)
            if size["values"] > limits["values"]:
                return ["values"]
            rows = asked["rows"] or max(1, file.metadata.row_group(0).num_rows)
            for batch in file.iter_batches(rows, columns=asked["columns"], use_threads=False):
                size["bytes"] += batch.nbytes
                size["values"] += sum(_leaves(column) - len(column) for column in batch.columns)
                if exceeded := [unit for unit in size if size[unit] > limits[unit]]:
                    return exceeded
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        pass  # whoever reads the file names the error
    return []


def _leaves(array: "pa.Array[Any]") -> int:
    """Number of values that are no lists, at any depth."""
    if isinstance(array, pa.StructArray):
        return sum(map(_leaves, array.flatten()))
    if isinstance(array, pa.MapArray):
        return _leaves(array.keys) + _leaves(array.items)
    if isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        return _leaves(array.flatten())
    return len(array)


def prepare() -> None:
    """Begin to start the process that decodes files, so that it is there once one is read. Does not wait."""
    threading.Thread(target=_started, name="decoder", daemon=True).start()


def _started() -> None:
    with suppress(OperationError):  # raised again where a file is read
        _decoder()


def _decoder() -> LimitedProcesses:
    """Return the process that decodes files; it ends with this one."""
    return lasting_process(measured, Limits(cpu_seconds=600, seconds=3600, memory=MAX_BATCH_BYTES))


# Sealed files: Parquet files of generations, ready to be published.

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
    """Write a table of `GENERATION_SCHEMA` as a sealed file, with the repeats of a question one after the other."""
    write_parquet(repeats_together(table), path)
    return SealedFile.at(path)


def repeats_together(table: pa.Table) -> pa.Table:
    """Return rows with those of a question one after the other, in the order in which the questions first appear.

    Each row group holds its own copy of a text, and one is full after a few prompts of megabytes.
    """
    ids: Any = table["sample_id"].combine_chunks()
    questions = ids.dictionary_encode().indices.to_numpy()
    if (np.diff(questions) >= 0).all():
        return table
    return table.take(np.argsort(questions, kind="stable"))


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
