"""Reading files of strangers: in bounded memory, nothing unpacked to disk, every error with file and row."""

import gzip
import hashlib
import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from regrade.errors import UserError
from regrade.importing.record import Json, Record

MAX_BYTES = 2 * 2**30
"""Of one file, or of all members of an archive together, once decompressed."""
MAX_ROW_BYTES = 64 * 2**20
"""Of one line, or of one member of an archive that is one row."""
MAX_MEMBERS = 1_000_000
_CHUNK = 2**20
_PARQUET_ROWS = 64
"""Rows decoded at once: a dictionary page makes a small file large, 64 rows of it stay bearable."""


class ImportFileError(UserError):
    """A file that cannot be imported; `row` counts from 0, and is None where it is about the whole file."""

    def __init__(self, path: str, problem: str, row: int | None = None) -> None:
        self.path, self.problem, self.row = path, problem, row
        super().__init__(path, problem, row)

    def __str__(self) -> str:
        where = "" if self.row is None else f", row {self.row}"
        return f"File '{self.path}'{where}: {self.problem}"


class SourceFile:
    """One file to import. What was parsed is kept, since formats are told apart by what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def sha256(self) -> str:
        """Return the sha256 of the file as it is."""
        with self._opened() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def kind(self) -> str:
        """Return the ending without the dot and without `.gz`: `jsonl`, `json`, `parquet`, `zip`, `eval`."""
        path = self.path.with_suffix("") if self.path.suffix == ".gz" else self.path
        return path.suffix.lower().removeprefix(".")

    @cached_property
    def document(self) -> Json:
        """Return the one JSON document that the file is.

        Raises:
            ImportFileError: If it is not JSON, nested too deep, or larger than `MAX_BYTES`.
        """
        with self._stream() as stream:
            return self._parsed(self._limited(stream, MAX_BYTES))

    @cached_property
    def rows(self) -> list[Record]:
        """Return the rows: of JSON lines, of a JSON list of objects, or of Parquet.

        Raises:
            ImportFileError: If there are none, or a row is not an object.
        """
        readers = {"parquet": self._parquet, "jsonl": self._lines, "zip": self._zipped}
        values = readers.get(self.kind, self._listed)()
        rows = [self.record(value, row) for row, value in enumerate(values)]
        if not rows:
            raise self.error("there are no rows in it.")
        return rows

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns: of Parquet, else of the first row."""
        if self.kind != "parquet":
            return tuple(self.rows[0].value)
        with self._parquet_file() as file:
            return tuple(file.schema_arrow.names)

    def record(self, value: object, row: int | None = None) -> Record:
        """Return an object of the file, which knows its place.

        Raises:
            ImportFileError: If it is not an object.
        """
        if not isinstance(value, dict):
            raise self.error(f"an object with named fields was expected, found {value!r:.60}.", row)
        return Record(value, lambda problem: self.error(problem, row))

    def members(self) -> list[str]:
        """Return the names of the files in an archive.

        Raises:
            ImportFileError: If it is not a zip archive, or has more than `MAX_MEMBERS`.
        """
        with self._archive() as archive:
            if len(archive.filelist) > MAX_MEMBERS:
                raise self.error(f"there are {len(archive.filelist):,} files in it.")
            return [info.filename for info in archive.filelist if not info.is_dir()]

    def member_documents(
        self, names: list[str], limit: int = MAX_ROW_BYTES
    ) -> Iterator[tuple[str, Any]]:
        """Yield name and JSON document of some members of an archive, in the order given.

        Args:
            names: Out of `members`; names only select, nothing is ever written under them.
            limit: Bytes that one of them may have; all together may have `MAX_BYTES`.

        Raises:
            ImportFileError: If one cannot be read, is not JSON, or is too large.
        """
        total = 0
        with self._archive() as archive:
            for name in names:
                with archive.open(name) as stream:
                    content = self._limited(stream, min(limit, MAX_BYTES - total), name)
                total += len(content)
                yield name, self._parsed(content, where=f"member '{name}': ")

    def beside(self, name: str) -> "SourceFile | None":
        """Return a file in the same folder, if it is there."""
        path = self.path.with_name(name)
        return SourceFile(path) if path.is_file() else None

    def error(self, problem: str, row: int | None = None) -> ImportFileError:
        """Return an error that names this file."""
        return ImportFileError(str(self.path), problem, row)

    def _lines(self) -> Iterator[Any]:
        with self._stream() as stream:
            total, row = 0, 0
            while line := stream.readline(MAX_ROW_BYTES + 1):
                total += len(line)
                if len(line) > MAX_ROW_BYTES or total > MAX_BYTES:
                    raise self.error(f"more than {_size(MAX_ROW_BYTES)} in one row.", row)
                if line.strip():
                    yield self._parsed(line, row)
                    row += 1

    def _listed(self) -> list[Any]:
        if isinstance(self.document, list):
            return self.document
        raise self.error("a list of objects was expected, one for each answer.")

    def _zipped(self) -> list[Any]:
        names = [name for name in self.members() if name.endswith(".json")]
        if len(names) != 1:
            raise self.error(f"an archive of one JSON file was expected, found {len(names)}.")
        [(_, document)] = self.member_documents(names, MAX_BYTES)
        if isinstance(document, list):
            return document
        raise self.error(f"member '{names[0]}': a list of objects was expected.")

    def _parquet(self) -> Iterator[Any]:
        total = 0
        with self._parquet_file() as file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                total += batch.nbytes
                if total > MAX_BYTES:
                    raise self.error(f"more than {_size(MAX_BYTES)} once decompressed.")
                yield from batch.to_pylist()

    def _parsed(self, content: bytes, row: int | None = None, where: str = "") -> Json:
        try:
            return json.loads(content)
        except RecursionError:
            raise self.error(f"{where}JSON that is nested too deep.", row) from None
        except (
            ValueError
        ) as error:  # also bytes that are not UTF-8, and numbers of thousands of digits
            raise self.error(f"{where}not JSON: {error}.", row) from error

    def _limited(self, stream: IO[bytes], limit: int, member: str = "") -> bytes:
        chunks, size = [], 0
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                what = f"member '{member}' has " if member else ""
                raise self.error(f"{what}more than {_size(limit)} once decompressed.")
            chunks.append(chunk)
        return b"".join(chunks)

    @contextmanager
    def _opened(self) -> Iterator[BufferedReader]:
        try:
            with self.path.open("rb") as file:
                yield file
        except (OSError, EOFError, zlib.error) as error:
            raise self.error(f"cannot be read: {error}.") from error

    @contextmanager
    def _stream(self) -> Iterator[IO[bytes]]:
        with self._opened() as file:
            if self.path.suffix == ".gz":
                with gzip.open(file) as inner:
                    yield cast("IO[bytes]", inner)
            else:
                yield file

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        with self._opened() as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    yield archive
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
                # RuntimeError: encrypted. NotImplementedError: compressed in a way that Python does not know.
                raise self.error(f"not a zip archive that can be read: {error}.") from error

    @contextmanager
    def _parquet_file(self) -> Iterator[pq.ParquetFile]:
        try:
            with pq.ParquetFile(self.path) as file:
                yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self.error(f"not Parquet that can be read: {error}.") from error


def finite(value: object) -> float | None:
    """Return a number, or a truth value as 1 or 0; None for anything else, and where it is not finite."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _size(limit: int) -> str:
    return f"{limit / 2**20:,.0f} MiB"
