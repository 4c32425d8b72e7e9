"""The spool: a crash-safe journal of generated rows that are not published yet.

Rows are appended to a journal of JSON lines and fsynced per batch. A closed journal is sealed as a Parquet file for
publishing. A line cut off by a crash was never reported as done, and is dropped when the spool is opened.

    <root>/<repository>/<answer_set_id>/
        origin.json                     repository, description and sessions of these answers
        journal-00000-<session>.jsonl   rows in the order of generation
        sealed-00000-<session>.parquet  rows ready to be published
        images-00000.parquet            images of the questions that the repository lacks

Of several processes, one owns the folder: see `regrade.answers.ownership`.
"""

import hashlib
import logging
import os
import re
import shutil
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from regrade.answers.images import hashes_in, image_tables
from regrade.answers.ownership import Busy, Ownership, last_owner
from regrade.answers.parquet import ParquetReader, SealedFile, repeats_together, write_parquet
from regrade.answers.rows import STATE_COLUMNS, RowKey, RowStates, ShardStates, row_keys, row_states
from regrade.records.columns import GENERATION_SCHEMA, of_json, to_json
from regrade.records.images import Image
from regrade.settings.errors import OperationError, UserError
from regrade.settings.files import atomic_write, make_folder, share, spool_root, sync
from regrade.settings.turn_ids import turn_of

logger = logging.getLogger(__name__)

MAX_JOURNAL_BYTES = 64 * 2**20
"""Size at which a journal is closed and a new one begins, in bytes."""
JOURNAL_ROWS = 4096
"""Rows of a journal decoded at a time: Python objects take several times the memory of their JSON."""
LONG_PROMPT = 256 * 2**10
"""Length from which a prompt is stored once for all answers to its question, in characters."""
ORIGIN = "origin.json"


class SpoolError(OperationError):
    """The spool cannot be written (full or read-only disk)."""

    def __init__(self, folder: str, problem: str) -> None:
        self.folder, self.problem = folder, problem
        super().__init__(folder, problem)

    def __str__(self) -> str:
        return (
            f"Spool '{self.folder}': {self.problem}. It keeps the answers so far. Free some space, or make it writable, "
            "and run the same command again. (REGRADE_SPOOL can name another folder, but the answers in this spool "
            "would then be generated again.)"
        )


class SpoolBusyError(UserError):
    """Another run is generating the same answer set, or publishes what an earlier run left of it."""

    def __init__(self, folder: str, owner: str) -> None:
        self.folder, self.owner = folder, owner
        super().__init__(folder, owner)

    @property
    def is_brief(self) -> bool:
        """True if the other process only publishes the rows in the spool, and generates nothing."""
        return _PUBLISHES in self.owner

    def __str__(self) -> str:
        if self.is_brief:
            return f"Another process ({self.owner}) has the spool '{self.folder}' right now. Try again in a minute."
        return (
            f"Another run ({self.owner}) is generating this answer set right now. Wait for it, or stop it; "
            f"its answers so far are kept in '{self.folder}'."
        )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Raise errors of the file system as `SpoolError`."""
    try:
        yield
    except OSError as error:
        raise SpoolError(str(folder), str(error.strerror or error)) from error


_PUBLISHES = ", which publishes what an earlier run left,"


def spool_folder(repository_uri: str, answer_set_id: str, suffix: str = "") -> Path:
    """Return the spool folder of an answer set; `suffix` tells those of several machines apart."""
    repository = hashlib.sha256(repository_uri.encode()).hexdigest()[:12]
    return spool_root() / repository / f"{answer_set_id}{suffix}"


def check_spools() -> None:
    """Make the folder of all spools, unless it is there.

    Raises:
        SpoolError: If it cannot be made, or not be written.
    """
    with _writing(spool_root()):
        root = _make_root()
    if not os.access(root, os.W_OK | os.X_OK):
        raise SpoolError(str(root), "it cannot be written")


def _make_root() -> Path:
    root = spool_root()
    if not root.exists():
        make_folder(root.parent)
        root.mkdir(mode=0o700, exist_ok=True)  # answers may be private
        share(root)
    return root


def is_from_this_machine(folder: Path) -> bool:
    """Return True if the last process that used the spool in a folder ran on this machine."""
    owner = last_owner(folder)
    return owner is not None and owner.is_from_here


def interrupted(repository_uri: str) -> list[str]:
    """Return the answer sets of a repository with rows in spools that ended processes of this machine left."""
    found = set()
    for folder in spool_folder(repository_uri, "").glob("*/"):
        owner = last_owner(folder)
        if owner and owner.is_from_here and not owner.is_alive and _has_rows(folder):
            found.add(folder.name.partition(".")[0])
    return sorted(found)


class Spool:
    """The spool of an answer set, owned by one process at a time. Use it as a context manager.

    Thread-safe: rows are appended by one thread while another seals and publishes.
    """

    def __init__(self, folder: Path, *, only_publishes: bool = False) -> None:
        """Name the spool of a folder.

        Args:
            folder: The folder; it is created when the spool is opened.
            only_publishes: The process publishes the rows of an earlier run. Others that meet its lock may wait for it.
        """
        self.folder = folder
        self.publishing = threading.Lock()
        """Held while publishing; other threads can append meanwhile."""
        self.shard_states = ShardStates()
        """States of the published shards that this process wrote or read, so that no shard is read twice."""
        self.rows = 0
        """Rows on disk."""
        self._guard = threading.Lock()
        self._journal: FileIO | None = None
        self._number = 0
        self._session: str | None = None
        self._journals: list[Path] = []
        """Journals to be sealed. Those of a process that took the spool over are none of them."""
        self._ownership = Ownership(folder, _PUBLISHES if only_publishes else "")

    def __enter__(self) -> Self:
        with _writing(self.folder):
            try:
                if self.folder.is_relative_to(spool_root()):
                    _make_root()
                make_folder(self.folder)
                self._ownership.take()
            except Busy as busy:
                raise self._busy(busy) from None
            try:
                make_folder(self.folder)  # again: the last owner may have removed it
                self._recover()
            except BaseException:
                self._ownership.release(forget=False)
                raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with self._guard:
                self._close_journal()
            if self.folder.exists() and not _has_rows(self.folder):
                self._remove()
        finally:
            self._ownership.release(forget=not self.folder.exists())

    def _busy(self, busy: Busy) -> SpoolBusyError:
        return SpoolBusyError(str(self.folder), str(busy.owner or "unknown process"))

    def _check_owned(self) -> None:
        """Raise an error if another process took the spool over."""
        try:
            self._ownership.check()
        except Busy as busy:
            raise self._busy(busy) from None

    def note_origin(self, origin: dict[str, Any]) -> None:
        """Store the JSON needed to publish the rows without their run; see `read_origin`."""
        with _writing(self.folder), atomic_write(self.folder / ORIGIN) as file:
            file.write(orjson.dumps(origin))

    def origin(self) -> dict[str, Any] | None:
        """Return the JSON that `note_origin` stored, or None.

        Raises:
            SpoolError: If it is damaged.
        """
        path = self.folder / ORIGIN
        try:
            return dict(orjson.loads(path.read_bytes())) if path.exists() else None
        except (ValueError, TypeError) as error:
            raise SpoolError(str(self.folder), f"'{ORIGIN}' is damaged ({error})") from error

    def begin(self, session: str) -> None:
        """Begin a session: the rows that follow are its own."""
        with self._guard:
            self._close_journal()
            self._session = session

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows of `GENERATION_SCHEMA` durably.

        Raises:
            SpoolError: If the disk is full or read-only.
            SpoolBusyError: If this process gave no sign of life for a minute, and another one took the spool over.
        """
        payload = b"".join(
            orjson.dumps(to_json(row), option=orjson.OPT_APPEND_NEWLINE) for row in rows
        )
        with _writing(self.folder), self._guard:
            try:
                if self._journal is None:
                    session = f"-{self._session}" if self._session else ""
                    path = self.folder / f"journal-{self._number:05d}{session}.jsonl"
                    self._journal = path.open("ab", buffering=0)
                    self._journals.append(path)
                    self._number += 1
                    share(path)
                    sync(self.folder)
                self._write(self._journal, payload)
                if os.fstat(self._journal.fileno()).st_nlink == 0:
                    problem = "somebody removed a file of it while answers were written"
                    raise SpoolError(str(self.folder), problem)
                self._check_owned()  # after writing: a process that takes over reads what was written before
                self.rows += len(rows)
                if self._journal.tell() >= MAX_JOURNAL_BYTES:
                    self._close_journal()
            except OSError:
                self._close_journal()
                raise

    @property
    def size(self) -> int:
        """Size of the rows' files, in bytes."""
        size = 0
        for path in self.folder.glob("*-*"):
            with suppress(FileNotFoundError):  # sealed or released meanwhile
                size += path.stat().st_size
        return size

    def states(self) -> RowStates:
        """Return the state of every row in the spool."""
        return row_states(self.batches(STATE_COLUMNS))

    def seal(self, *, by_question: bool = False, repeats: int = 1) -> list[SealedFile]:
        """Close the journal and return the rows of the spool as Parquet files.

        Args:
            by_question: Keep the turns of conversations of which the last turn is not there yet: machines publish whole
                conversations, so that no turn follows another machine's answer.
            repeats: Answers to a question that are published together if its prompt is long; the others wait for the last.

        Raises:
            SpoolError: If the disk is full or read-only; no row is lost.
        """
        with self._guard:
            self._close_journal()
            journals, self._journals = self._journals, []
        self._check_owned()
        with _writing(self.folder):
            try:
                waiting = _open_turns(journals) if by_question else set()
                waiting |= _open_repeats(journals, repeats) if repeats > 1 else set()
                if waiting:
                    journals = self._without(journals, waiting)
                while journals:
                    together = _together(journals)
                    rows = chain.from_iterable(map(_journal_batches, together))
                    table = pa.Table.from_batches(rows, schema=GENERATION_SCHEMA)
                    if table.num_rows:
                        sealed = together[0].with_name(_sealed_name(together[0]))
                        write_parquet(repeats_together(table), sealed)
                        share(sealed)
                    for journal in together:
                        journal.unlink()
                        del journals[0]
            finally:
                with self._guard:
                    self._journals = journals + self._journals
        return [SealedFile.at(path) for path in sorted(self.folder.glob("sealed-*.parquet"))]

    def keep_images(self, images: Iterable[Image]) -> None:
        """Keep images durably, so that rows which show them can be published without their run.

        Raises:
            SpoolError: If the disk is full or read-only.
            SpoolBusyError: See `append`.
        """
        self._check_owned()
        files = self.images()
        known = {sha256 for path in files for sha256 in hashes_in(path)}
        first = 1 + max((int(path.stem[-5:]) for path in files), default=-1)
        new = (image for image in images if image.sha256 not in known)
        with _writing(self.folder):
            for number, table in enumerate(image_tables(new), first):
                path = self.folder / f"images-{number:05d}.parquet"
                write_parquet(table, path)
                share(path)

    def images(self) -> list[Path]:
        """Return the files of images that are not published yet."""
        return sorted(self.folder.glob("images-*.parquet"))

    def release_images(self, published: Iterable[Path]) -> None:
        """Remove files of images that are published."""
        for path in published:
            path.unlink(missing_ok=True)

    def _without(self, journals: list[Path], waiting: Container[RowKey]) -> list[Path]:
        """Return the journals without the rows that wait, which are in a new journal then."""
        kept = []
        for journal in journals:
            lines = journal.read_bytes().splitlines(keepends=True)
            parts: dict[bool, list[bytes]] = {True: [], False: []}
            for line in lines:
                row = orjson.loads(line)
                parts[(row["sample_id"], row["repeat"]) not in waiting].append(line)
            if parts[False]:
                # First what stays, so that a crash doubles rows and loses none.
                with self._guard:
                    number, self._number = self._number, self._number + 1
                open_ = journal.with_name(f"journal-{number:05d}{journal.stem[13:]}.jsonl")
                for path, content in ((open_, parts[False]), (journal, parts[True])):
                    with atomic_write(path) as file:
                        file.write(b"".join(content))
                    share(path)
                with self._guard:
                    self._journals.append(open_)
            kept.append(journal)
        return kept

    def release(self, published: Iterable[Path]) -> None:
        """Remove sealed files whose rows are published."""
        for path in published:
            with suppress(FileNotFoundError):
                rows = pq.read_metadata(path).num_rows
                path.unlink()
                with self._guard:
                    self.rows -= rows

    def remove(self) -> None:
        """Remove the whole spool after its answer set is published."""
        with self._guard:
            self._close_journal()
        self._remove()

    def _remove(self) -> None:
        self.rows = 0
        with suppress(OSError, Busy):  # harmless: leftover files are empty or published
            self._ownership.check()
            shutil.rmtree(self.folder)

    @staticmethod
    def _write(journal: FileIO, payload: bytes) -> None:
        """Append complete lines durably, or nothing: the next line must not follow half a line."""
        before = journal.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(payload):  # a full disk may accept a part
                written += journal.write(payload[written:])
            os.fsync(journal.fileno())
        except OSError:
            with suppress(OSError):
                os.ftruncate(journal.fileno(), before)
            raise

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the spool, with at least these columns."""
        for path in sorted(self.folder.glob("sealed-*.parquet")):
            yield from ParquetReader(path.name, path, GENERATION_SCHEMA, columns).batches()
        for path in sorted(self.folder.glob("journal-*.jsonl")):
            yield from _journal_batches(path)

    def _recover(self) -> None:
        self.rows, self._journals = 0, []
        for leftover in self.folder.glob("*.tmp"):
            leftover.unlink()
        numbers = [0]
        for journal in sorted(self.folder.glob("journal-*.jsonl")):
            content = journal.read_bytes()
            whole = _whole_lines(content)
            if whole < len(content):
                if b"\n" in content[whole:-1]:
                    said = "'%s' is damaged from byte %d on; the rows after it are generated again"
                    logger.warning(said, journal, whole)
                os.truncate(journal, whole)
            if (sealed := journal.with_name(_sealed_name(journal))).exists():
                journal.unlink()  # crash between sealing and removing the journal
            else:
                self._journals.append(journal)
                self.rows += content[:whole].count(b"\n")
            numbers.append(int(re.findall(r"\d+", sealed.name)[0]) + 1)
        for path in self.folder.glob("sealed-*.parquet"):
            numbers.append(int(re.findall(r"\d+", path.name)[0]) + 1)
            self.rows += ParquetReader(str(path), path, GENERATION_SCHEMA, STATE_COLUMNS).rows
        self._number = max(numbers)

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _has_rows(folder: Path) -> bool:
    return any(path.name.startswith(("journal-", "sealed-")) for path in folder.iterdir())


def _together(journals: Sequence[Path]) -> list[Path]:
    """Return the first journals that become one file: of one session, and no larger than one journal may be."""
    size, together = 0, list[Path]()
    for journal in journals:
        size += journal.stat().st_size
        if together and (journal.stem[13:] != together[0].stem[13:] or size > MAX_JOURNAL_BYTES):
            break
        together.append(journal)
    return together


def _open_turns(journals: Sequence[Path]) -> set[RowKey]:
    """Return the turns of conversations whose last turn is in no journal."""
    turns = [
        (turn, repeat)
        for batch in chain.from_iterable(map(_journal_batches, journals))
        for sample_id, repeat in row_keys(batch)
        if (turn := turn_of(sample_id)) is not None
    ]
    whole = {(turn.question, repeat) for turn, repeat in turns if turn.number == turn.of}
    return {(turn.id, repeat) for turn, repeat in turns if (turn.question, repeat) not in whole}


def _open_repeats(journals: Sequence[Path], repeats: int) -> set[RowKey]:
    """Return the answers to questions with a long prompt that have fewer than `repeats` in the journals."""
    found: dict[str, set[int]] = {}
    for journal in journals:
        with journal.open("rb") as file:
            for line in file:
                if len(line) < LONG_PROMPT:
                    continue
                row = orjson.loads(line)
                if len(row["prompt"] or "") >= LONG_PROMPT:
                    found.setdefault(row["sample_id"], set()).add(row["repeat"])
    return {(id_, n) for id_, numbers in found.items() if len(numbers) < repeats for n in numbers}


def _journal_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as file:
        while lines := list(islice(file, JOURNAL_ROWS)):
            rows = [of_json(orjson.loads(line)) for line in lines]
            yield pa.RecordBatch.from_pylist(rows, schema=GENERATION_SCHEMA)


def _whole_lines(content: bytes) -> int:
    """Return the length in bytes of the readable rows at the start; a power cut may leave zeros after them."""
    length = 0
    with suppress(orjson.JSONDecodeError):
        for line in content.splitlines(keepends=True):
            orjson.loads(line)
            if not line.endswith(b"\n"):
                break
            length += len(line)
    return length


def _sealed_name(journal: Path) -> str:
    return journal.name.replace("journal", "sealed").replace(".jsonl", ".parquet")
