"""Read untrusted files in bounded memory, without unpacking to disk; every error names file and row."""

import gzip
import hashlib
import io
import json
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from regrade.answers.parquet import bomb_in
from regrade.exchange.importing.record import MAX_FIELDS, Json, Keys, Record, leaves, unread
from regrade.settings.errors import UserError

MAX_BYTES = 2 * 2**30
"""Largest file, or total of an archive's members, in bytes after decompression."""
MAX_ROW_BYTES = 64 * 2**20
"""Largest line, or archive member that holds one row, in bytes."""
MAX_AGAIN = 512 * 2**20
"""Most bytes of parts that a file names a second time and more often."""
MAX_MEMBERS = 1_000_000
"""Most members of an archive."""
READ_BESIDE = ("results_*.json", "*.traj", "*.traj.json")
"""Names of files that readers take from the folder of the samples; they have no answers."""
MAX_VALUES = 30_000_000
"""Most objects, lists and fourfold commas of JSON in a file: each takes up to 200 bytes of memory."""
_ZSTD = 93
"""Compression of the members of newer logs of Inspect."""
_LOCAL_HEADER = 30
"""Bytes before a member's name; the last four are the lengths of its name and its extra field."""
_CHUNK = 2**20
"""Bytes decompressed at a time."""
_PARQUET_ROWS = 64
"""Rows decoded at once; few, because dictionary pages expand to a multiple of the file's size."""


class ImportFileError(UserError):
    """A file that cannot be imported; `row` counts from 0, None if the whole file is meant."""

    def __init__(self, path: str, problem: str, row: int | None = None) -> None:
        self.path, self.problem, self.row = path, problem, row
        super().__init__(path, problem, row)

    def __str__(self) -> str:
        where = "" if self.row is None else f", row {self.row}"
        return f"File '{self.path}'{where}: {self.problem}"


class SourceFile:
    """A file to import. Parsed content is cached, because both format detection and the reader need it."""

    def __init__(self, path: Path, *, dataset: str = "", within: Path | None = None) -> None:
        """Name a file; nothing is read yet.

        Args:
            path: The file on this machine.
            dataset: Address of the dataset on the Hub that it was downloaded from; "" if it was not.
            within: Folder from which the file is named: that of the dataset's files. None: the working directory for a relative path.
        """
        # Readers take facts from the names of the folders around, whichever way the path is written.
        self.path, self.dataset = path.absolute(), dataset
        self._within = Path.cwd() if within is None and not path.is_absolute() else within
        self.parts: list[Path] = []
        """Files that belong to this one, such as the trials of a job."""
        self.consulted: list[Path] = []
        """Files beside this one that were read for facts about it."""
        self._digest: tuple[int, str] | None = None
        self._present: set[Keys] = set()
        self._read: set[Keys] = set()
        self._values = 0
        self._named: set[Path] = set()
        self._again = 0
        """Bytes of parts that were named before."""

    @property
    def name(self) -> str:
        """Path as people know it: on this machine, or in the dataset on the Hub."""
        if self._within is None or not self.path.is_relative_to(self._within):
            return str(self.path)
        below = self.path.relative_to(self._within).as_posix()
        return f"{self.dataset}/{below}" if self.dataset else below

    @cached_property
    def own_sha256(self) -> str:
        """Sha256 of the file as stored."""
        with self._opened() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def sha256(self) -> str:
        """Sha256 of the file as stored; with parts, over its hash and theirs."""
        if not self.parts:
            return self.own_sha256
        if self._digest is None or self._digest[0] != len(self.parts):
            hashes = [SourceFile(path).own_sha256 for path in sorted(set(self.parts))]
            content = "\n".join([self.own_sha256, *hashes]).encode()
            self._digest = len(self.parts), hashlib.sha256(content).hexdigest()
        return self._digest[1]

    @property
    def kind(self) -> str:
        """Extension in lower case, without dot and `.gz`: `jsonl`, `json`, `parquet`, `zip`, `eval`."""
        path = self.path.with_suffix("") if self.path.suffix == ".gz" else self.path
        return path.suffix.lower().removeprefix(".")

    @cached_property
    def document(self) -> Json:
        """Content of a file that is one JSON document.

        Raises:
            ImportFileError: If it is not JSON, nested too deeply, or larger than `MAX_BYTES`.
        """
        with self._stream() as stream:
            return self._parsed(self._limited(stream, MAX_BYTES))

    @cached_property
    def rows(self) -> list[Record]:
        """Rows of JSON lines, Parquet, or a JSON list of objects (also as the only JSON file of a zip).

        Raises:
            ImportFileError: If the file has no rows, or a row is not an object.
        """
        readers = {"parquet": self._parquet, "jsonl": self._lines, "zip": self._zipped}
        values = readers.get(self.kind, self._listed)()
        rows = [self.record(value, row) for row, value in enumerate(values)]
        if not rows:
            raise self.error("it has no rows.")
        return rows

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns: of the Parquet schema, otherwise of the first row."""
        if self.kind != "parquet":
            return self.rows[0].names
        with self._parquet_file() as file:
            return tuple(file.schema_arrow.names)

    def record(self, value: object, row: int | None = None) -> Record:
        """Wrap a JSON object, so that its errors name this file and the row.

        Raises:
            ImportFileError: If `value` is not an object.
        """
        if not isinstance(value, dict):
            raise self.error(f"an object with named fields was expected, found {value!r:.60}.", row)
        if row is None:
            return Record(value, self.error)
        if len(self._present) < MAX_FIELDS:
            self._present.update(islice(leaves(value), MAX_FIELDS))
        return Record(value, lambda problem: self.error(problem, row), self._read)

    def leave_out(self, name: str) -> None:
        """Name something beside the fields of rows that is not imported; it is told once, among `unread`."""
        if len(self._present) < MAX_FIELDS:
            self._present.add((name,))

    @property
    def unread(self) -> list[str]:
        """Names of what holds something and was not read yet: fields of rows, and what `leave_out` names."""
        return unread(self._present, self._read)

    def members(self) -> list[str]:
        """Names of the files in the archive.

        Raises:
            ImportFileError: If the file is not a zip archive, or has more than `MAX_MEMBERS` files.
        """
        with self._archive() as archive:
            if len(archive.filelist) > MAX_MEMBERS:
                raise self.error(
                    f"it has {len(archive.filelist):,} files; at most {MAX_MEMBERS:,} are allowed."
                )
            return [info.filename for info in archive.filelist if not info.is_dir()]

    def member_documents(
        self, names: list[str], limit: int = MAX_ROW_BYTES
    ) -> Iterator[tuple[str, Any]]:
        """Yield name and JSON document of archive members, in the given order.

        Args:
            names: Names from `members`. They only select; nothing is written under them.
            limit: Largest member in bytes; the total may be `MAX_BYTES`.

        Raises:
            ImportFileError: If a member cannot be read, is not JSON, or is too large.
        """
        total = 0
        with self._archive() as archive:
            for name in names:
                content = self._member(archive, name, min(limit, MAX_BYTES - total))
                total += len(content)
                yield name, self._parsed(content, where=f"member '{name}': ")

    def part(self, *steps: str, hashed: bool = True) -> "SourceFile | None":
        """File at a path below this file's folder, which belongs to this one; None if there is none.

        Args:
            steps: Names of folders and of the file; one that leads out of the folder names no file.
            hashed: The hash of this file covers it. An image needs none: rows name it by its own.

        Raises:
            ImportFileError: If parts that were named before have more than `MAX_AGAIN`: a few bytes could fill the memory.
        """
        if not _are_names(steps) or not self._is_own(path := self.path.parent.joinpath(*steps)):
            return None
        if path in self._named:
            self._again += MAX_ROW_BYTES if path.suffix == ".gz" else path.stat().st_size
            if self._again > MAX_AGAIN:
                raise self.error(
                    f"it names files beside it again and again, such as '{path.name}': together more than {_size(MAX_AGAIN)}."
                )
        self._named.add(path)
        (self.parts if hashed else self.consulted).append(path)
        return self.other(path)

    def folders(self, *steps: str) -> list[str]:
        """Names of the folders in a folder below this file's own, sorted; none if there is no such folder."""
        path = self.path.parent.joinpath(*steps)
        if not _are_names(steps) or not path.is_dir() or path.is_symlink():
            return []
        return sorted(e.name for e in path.iterdir() if e.is_dir() and not e.is_symlink())

    def other(self, path: Path) -> "SourceFile":
        """Another file of the same folder or dataset."""
        return SourceFile(path, dataset=self.dataset, within=self._within)

    def _is_own(self, path: Path) -> bool:
        """True for a file that can be reached without symbolic links; those of a download are links to the cache."""
        places = [path.parent] if self.dataset else [path, path.parent]
        folder = self.path.parent
        within = {p for place in places for p in (place, *place.parents) if folder in p.parents}
        if any(place.is_symlink() for place in within):
            return False
        try:
            return path.is_file()
        except OSError:  # a name that is too long
            return False

    def content(self) -> bytes:
        """Content of a file of at most `MAX_ROW_BYTES`."""
        with self._stream() as stream:
            return self._limited(stream, MAX_ROW_BYTES)

    def text(self) -> str:
        """Text of a file of at most `MAX_ROW_BYTES`, without halves of characters."""
        return self.content().decode(errors="replace")

    @property
    def row_document(self) -> Json:
        """Content of a file of at most `MAX_ROW_BYTES` that is one JSON document.

        Raises:
            ImportFileError: If it is not JSON, nested too deeply, or larger.
        """
        return self._parsed(self.content())

    def consult(self, path: Path | str) -> "SourceFile | None":
        """File that tells facts about this one, by its path, or its name in the same folder; None if it is not there."""
        place = self.path.parent / path
        if not place.is_file():
            return None
        self.consulted.append(place)
        return self.other(place)

    def facts(self, *paths: Path | str) -> Record:
        """JSON object of the first of some files that is there, named as in `consult`; empty without any."""
        found = next(filter(None, map(self.consult, paths)), None)
        return self.record({}) if found is None else found.record(found.document)

    def error(self, problem: str, row: int | None = None) -> ImportFileError:
        """Error that names this file."""
        return ImportFileError(self.name, problem, row)

    def _lines(self) -> Iterator[Any]:
        with self._stream() as stream:
            total, row = 0, 0
            while line := stream.readline(MAX_ROW_BYTES + 1):
                total += len(line)
                if len(line) > MAX_ROW_BYTES:
                    raise self.error(f"more than {_size(MAX_ROW_BYTES)} in one row.", row)
                if total > MAX_BYTES:
                    raise self.error(f"more than {_size(MAX_BYTES)} once decompressed.")
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
        with self._parquet_file() as file:
            if problem := bomb_in(self.path, rows=_PARQUET_ROWS, most=MAX_BYTES):
                raise self.error(f"{problem}.")
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                yield from batch.to_pylist()

    def _parsed(self, content: bytes, row: int | None = None, where: str = "") -> Json:
        # A few kilobytes of an archive can be a gigabyte of `{},{},`, which takes a hundred times as much in memory.
        self._values += content.count(b"{") + content.count(b"[") + content.count(b",") // 4
        if self._values > MAX_VALUES:
            raise self.error(
                f"{where}more than {MAX_VALUES:,} values. Split the file into several.", row
            )
        try:
            return json.loads(content)
        except RecursionError:
            raise self.error(f"{where}JSON that is nested too deeply.", row) from None
        except ValueError as error:  # also for invalid UTF-8, and numbers with thousands of digits
            raise self.error(f"{where}not JSON: {error}.", row) from error

    def _member(self, archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
        """Content of a member; also if it is compressed with zstd, which Python's module cannot read before 3.14."""
        info = archive.getinfo(name)
        if info.compress_type != _ZSTD:
            with archive.open(name) as stream:
                return self._limited(stream, limit, name)
        if info.flag_bits & 1 or archive.fp is None:
            raise self.error(f"member '{name}' is encrypted.")
        if info.compress_size > limit:
            raise self.error(f"member '{name}' has more than {_size(limit)}.")
        archive.fp.seek(info.header_offset)
        head = archive.fp.read(_LOCAL_HEADER)
        if len(head) < _LOCAL_HEADER:
            raise self.error(f"member '{name}' is cut off.")
        archive.fp.seek(sum(struct.unpack("<HH", head[-4:])), io.SEEK_CUR)
        packed = archive.fp.read(info.compress_size)
        try:
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as unpacked:
                content = self._limited(cast("IO[bytes]", unpacked), limit, name)
        except (OSError, pa.ArrowException) as error:
            raise self.error(f"member '{name}' cannot be read: {error}.") from error
        if zlib.crc32(content) != info.CRC:
            raise self.error(f"member '{name}' is damaged: its checksum is another.")
        return content

    def _limited(self, stream: IO[bytes], limit: int, member: str = "") -> bytes:
        chunks, size = [], 0
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                where = f"member '{member}' has " if member else ""
                raise self.error(f"{where}more than {_size(limit)} once decompressed.")
            chunks.append(chunk)
        return b"".join(chunks)

    @contextmanager
    def _opened(self) -> Iterator[BufferedReader]:
        try:
            with self.path.open("rb") as file:
                yield file
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
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
                # RuntimeError: encrypted. NotImplementedError: a compression that Python does not support.
                raise self.error(f"not a zip archive that can be read: {error}.") from error

    @contextmanager
    def _parquet_file(self) -> Iterator[pq.ParquetFile]:
        try:
            with pq.ParquetFile(self.path) as file:
                yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            raise self.error(f"not Parquet that can be read: {error}.") from error


def _are_names(steps: tuple[str, ...]) -> bool:
    """True if steps of a path lead to what they name, and not out of the folder."""
    return not any(s in ("", ".", "..") or "/" in s or "\0" in s for s in steps)


def finite(value: object) -> float | None:
    """Convert a finite number, true or false to a float; anything else to None."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _size(limit: int) -> str:
    return f"{limit / 2**20:,.0f} MiB"
