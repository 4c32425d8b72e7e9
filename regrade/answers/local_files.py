"""Files of an answer folder: contents by their sha256 in `.regrade/objects`, and those of the head at their paths.

A content is kept before its commit, and put at its path after it. So what is at a path can always be made again.
docs/decisions/0002-local-repository.md describes the files.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
from pydantic import Field, ValidationError, field_validator

from regrade.answers.base import StoredFile
from regrade.answers.content import CHUNK_BYTES, Content, opened
from regrade.answers.local_history import NO_LINKS, is_own, make_own_folder
from regrade.records.specification import IMAGES, TOPS
from regrade.settings import StrictModel
from regrade.settings.errors import DamagedAnswersError, HubError
from regrade.settings.files import (
    cache_folder,
    file_sha256,
    make_folder,
    share,
    sync,
    time_there,
    write_durably,
)

CARD = "README.md"
"""The only file that people may edit in place."""
FOLDERS = {*TOPS, IMAGES, "scores", "labels", "aliases", "measurements", "questions"}
"""Folders of a repository."""
DELTA_BYTES = 8192
"""Size in bytes from which a text is kept as its differences from the one that it replaces."""
LONGEST_CHAIN = 1000
"""Most differences to apply, one after the other, to read a former text."""
SHARD = re.compile(
    rf"(?:(?:{'|'.join(TOPS)})/[^/]+/[^/]+|{IMAGES})/[^/]+/part-[0-9]{{5}}-([0-9a-f]{{8}})\.parquet"
)
"""Path of a shard, which is named after its content: it is kept once, under `objects` or at its path."""
_LEFT_SECONDS = 86_400.0
_ANCHOR = 64
_PROBES = 64


class _Delta(StrictModel):
    """A text as its differences from another one."""

    base: str = Field(pattern=r"^[0-9a-f]{64}$")
    """sha256 of the other text."""
    chain: int = Field(ge=1, le=LONGEST_CHAIN)
    """Differences to apply until this text is there."""
    weight: int = Field(ge=0)
    """Their size together, in bytes."""
    edits: tuple[tuple[int, int, str], ...]
    """Start and end of a part of the other text, in bytes, and the text that stands in its place here."""

    @field_validator("edits")
    @classmethod
    def _in_order(cls, edits: tuple[tuple[int, int, str], ...]) -> tuple[tuple[int, int, str], ...]:
        """Refuse parts that overlap: a few bytes could repeat a text until the memory is full."""
        places = [0, *(place for start, end, _ in edits for place in (start, end))]
        if places != sorted(places):
            raise ValueError("parts overlap")
        return edits


class Files:
    """The files of a folder; `history` is its `.regrade`."""

    def __init__(self, folder: Path, history: Path) -> None:
        self.folder = folder
        self.objects = history / "objects"
        self._temporary = history / "tmp"
        self._changed: set[Path] = set()
        self._texts: dict[str, bytes] = {}
        """Texts of this commit that are kept as differences."""

    def prepare(self) -> None:
        """Create the working folders, before a commit, and forget what an earlier one had in memory."""
        self._texts.clear()
        for folder in (self._temporary, self.objects):
            make_own_folder(folder, self.folder)

    def find(self, file: StoredFile) -> Path | None:
        """Return a file with a content that is intact; None if there is none.

        A former text is put together again, in regrade's cache.
        """
        working, kept = self.folder / file.path, self.objects / str(file.sha256)
        # First where no other process writes another content. Again: a shard may have just been put at its path.
        first, second = (working, kept) if _is_shard(file) else (kept, working)
        for candidate in (first, second, first):
            if _has_content(candidate, str(file.sha256)):
                return candidate
        content = self._put_together(str(file.sha256))
        if content is None:
            return None
        again = cache_folder() / "former" / str(file.sha256)
        if not again.is_file() or file_sha256(again) != file.sha256:
            make_folder(again.parent)
            temporary = again.with_name(uuid4().hex)
            temporary.write_bytes(content)
            temporary.replace(again)
        return again

    def holds(self, file: StoredFile) -> bool:
        """Return True if there is a file of the size where a shard is kept; it is not read."""
        for kept in (self.folder / file.path, self.objects / str(file.sha256)):
            with suppress(FileNotFoundError, NotADirectoryError):
                if kept.stat().st_size == file.size:
                    return True
        return False

    def is_at_its_path(self, file: StoredFile) -> bool:
        """Return True if the file at the path has the content."""
        return self._hash_at(file.path) == file.sha256

    def _hash_at(self, path: str) -> str | None:
        """Return the hash of the file at a path; None if there is none, or another process moves it just now."""
        with suppress(FileNotFoundError):
            return file_sha256(target) if (target := self.folder / path).is_file() else None
        return None

    def keep(self, content: Content, former: StoredFile | None) -> None:
        """Keep a content: a large text as its differences from the one that it replaces. `flush` makes it durable.

        Raises:
            HubError: If the content is a file that changed since it was described.
            OSError: If the file system refuses.
        """
        kept = self.objects / content.sha256
        if self._keeps(content.sha256):
            with suppress(DamagedAnswersError):
                if kept.is_file() or self._put_together(content.sha256) is not None:
                    return
        is_damaged = self._has(content.sha256)  # it is written again, whole
        delta = None if is_damaged else self._delta(content, former)
        if delta is not None and isinstance(content.source, bytes):
            self._texts[content.sha256] = content.source
        with self._new_file() as temporary:
            if delta is not None:
                kept = _delta_file(kept)
                write_durably(temporary, delta)
            else:
                self._copy(content, temporary)
            temporary.replace(kept)

    def place(self, file: StoredFile) -> None:
        """Put a kept content at its path, unless it is there, or is damaged where it is kept.

        What stands there is kept, if it is not yet.
        """
        target, kept = self.folder / file.path, self.objects / str(file.sha256)
        if self.is_at_its_path(file):
            return
        with self._new_file() as temporary:
            placed = temporary
            if _has_content(kept, kept.name):
                if _is_shard(file):
                    placed = kept
                elif not (file.path.endswith(".parquet") and _linked(kept, temporary)):
                    self._write(temporary, kept.read_bytes())
            elif (content := self._put_together(str(file.sha256))) is not None:
                self._write(temporary, content)
            else:
                return
            make_own_folder(target.parent, self.folder)
            self.preserve(file.path)
            with suppress(FileNotFoundError):  # another process has just moved the same shard
                placed.replace(target)
        self._changed.add(target.parent)

    def flush(self) -> None:
        """Flush the names in all folders that changed to disk."""
        for folder in (self.objects, *self._changed):
            sync(folder)
        self._changed.clear()

    def remove(self, path: str) -> None:
        """Remove the file at a path; its content is kept."""
        target = self.folder / path
        if not target.is_file() or not is_own(target.parent, self.folder):
            return
        self._changed.add(target.parent)
        with suppress(FileNotFoundError):  # another process has just removed it
            if SHARD.fullmatch(path):
                kept = self.objects / file_sha256(target)
                target.replace(kept)
                # Two names of one file stay both: two processes that place a shard at once can leave them.
                if target.samefile(kept):
                    target.unlink()
            else:
                self.preserve(path)
                target.unlink()

    def preserve(self, path: str) -> None:
        """Keep the content of the file at a path, if it is not kept yet."""
        target, sha256 = self.folder / path, self._hash_at(path)
        if sha256 is None or self._keeps(sha256):
            return
        with self._new_file() as temporary:
            with suppress(FileNotFoundError):  # another process has just moved it
                if path == CARD or not _linked(target, temporary):
                    write_durably(temporary, target.read_bytes())
            # Named by its content of now: another process may have put it there.
            if temporary.is_file():
                temporary.replace(self.objects / file_sha256(temporary))

    def on_disk(self) -> Iterator[tuple[str, Path]]:
        """Yield path and file of all files that can be a repository's, without hidden ones."""
        for root, folders, names in os.walk(self.folder):
            inside = Path(root).relative_to(self.folder)
            at_top = root == str(self.folder)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if at_top:
                folders[:] = [name for name in folders if name in FOLDERS]
            for name in sorted(names):
                if not name.startswith(".") and (name == CARD or not at_top):
                    yield (inside / name).as_posix(), Path(root, name)

    def damaged(self) -> Iterator[Path]:
        """Yield the kept contents that are not those of their names; of former texts, the first that cannot be put together again."""
        after: dict[str, list[tuple[Path, _Delta]]] = {}
        texts: list[Path] = []
        for kept in sorted(self.objects.glob("*")):
            if kept.suffix:
                try:
                    delta = self._stored_delta(kept.stem)
                except DamagedAnswersError:
                    yield kept
                    continue
                if delta is not None:
                    after.setdefault(delta.base, []).append((kept, delta))
                continue
            with suppress(FileNotFoundError):  # a shard that a commit has just put at its path
                if file_sha256(kept) == kept.name:
                    texts.append(kept)
                else:
                    yield kept
        for whole in texts:  # no shard is the base of a text
            made = [(whole.name, whole.read_bytes())] if whole.name in after else []
            while made:
                base, text = made.pop()
                for kept, delta in after.get(base, ()):
                    new = _edited(text, delta)
                    if hashlib.sha256(new).hexdigest() == kept.stem:
                        made.append((kept.stem, new))
                    else:
                        yield kept
        yield from (kept for base in after if not self._has(base) for kept, _ in after[base])

    def clean(self) -> None:
        """Remove temporary files that killed processes left; those of a day may be another process's."""
        history = self._temporary.parent
        oldest = time_there(self._temporary) - _LEFT_SECONDS
        for pattern in ("tmp/*", "commits/*/.*", "checkpoints/*.tmp"):
            for left in history.glob(pattern):
                if is_own(left.parent, self.folder):
                    with suppress(FileNotFoundError):
                        if left.is_file() and left.stat().st_mtime < oldest:
                            left.unlink()

    def _keeps(self, sha256: str) -> bool:
        """Return True if a content is kept: whole and intact, or as differences, which are not put together for this."""
        kept = self.objects / sha256
        return _has_content(kept, sha256) if kept.is_file() else _delta_file(kept).is_file()

    def _has(self, sha256: str) -> bool:
        kept = self.objects / sha256
        return kept.is_file() or _delta_file(kept).is_file()

    def _copy(self, content: Content, target: Path) -> None:
        digest = hashlib.sha256()
        with opened(content.source) as source, target.open("wb") as file:
            share(target)
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != content.sha256:
            problem = f"the file for '{content.path}' changed while it was read."
            raise HubError(str(self.folder), "committing", problem, True)

    def _delta(self, content: Content, former: StoredFile | None) -> bytes | None:
        """Return a large text as its differences from the former one; None if it is not worth it."""
        if (
            not isinstance(content.source, bytes)
            or content.path.endswith(".parquet")
            or former is None
            or min(former.size, content.size) < DELTA_BYTES
            or not self._keeps(str(former.sha256))
            or (found := self.find(former)) is None
        ):
            return None
        before = found.read_bytes()
        if hashlib.sha256(before).hexdigest() != former.sha256:
            return None  # another process has just put another content at its path
        chain, weight = 0, 0
        if (last := self._stored_delta(str(former.sha256))) is not None:
            chain, weight = last.chain, last.weight
        edits = list(_edits(before, content.source))
        try:
            texts = tuple((start, end, text.decode()) for start, end, text in edits)
        except UnicodeDecodeError:
            return None
        weight += sum(len(text) + 32 for *_, text in texts)
        # A whole text is kept again when the differences since the last one are as large: a commit adds a constant size.
        if chain >= LONGEST_CHAIN or weight > content.size:
            return None
        delta = _Delta(base=str(former.sha256), chain=chain + 1, weight=weight, edits=texts)
        return delta.model_dump_json().encode()

    def _stored_delta(self, sha256: str) -> _Delta | None:
        kept = self.objects / sha256
        if kept.is_file():
            return None
        try:
            return _Delta.model_validate_json(_delta_file(kept).read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            problem = "it does not tell the differences of a text."
            raise DamagedAnswersError(str(_delta_file(kept)), problem) from error

    def _put_together(self, sha256: str) -> bytes | None:
        """Return a text that is kept as differences; None if it is not, or a part is missing."""
        if sha256 in self._texts:
            return self._texts[sha256]
        deltas: list[_Delta] = []
        needed = sha256
        while (delta := self._stored_delta(needed)) is not None and len(deltas) < LONGEST_CHAIN:
            deltas.append(delta)
            needed = delta.base
        kept = self.objects / needed
        if not deltas or not kept.is_file():
            return None
        text = kept.read_bytes()
        for delta in reversed(deltas):
            text = _edited(text, delta)
        return text if hashlib.sha256(text).hexdigest() == sha256 else None

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        """Write a file whose content is kept durably elsewhere."""
        path.write_bytes(content)
        share(path)

    @contextmanager
    def _new_file(self) -> Iterator[Path]:
        """Yield a name for a temporary file, which is removed after the block if it has not been moved."""
        temporary = self._temporary / uuid4().hex
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def _has_content(path: Path, sha256: str) -> bool:
    """Return True if there is a file, and its content is that of the hash."""
    with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return file_sha256(path) == sha256
    return False


def _delta_file(kept: Path) -> Path:
    return kept.with_name(kept.name + ".delta")


def _is_shard(file: StoredFile) -> bool:
    match = SHARD.fullmatch(file.path)
    return match is not None and str(file.sha256).startswith(match[1])


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in NO_LINKS:
            return False
        raise
    return True


# Differences of two texts that are alike, such as the manifests of two commits.


def _edits(old: bytes, new: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start and end of parts of the old text, and what stands in their place in the new one."""
    i = j = 0
    while (i, j) != (len(old), len(new)):
        alike = _alike(old[i:], new[j:])
        i, j = i + alike, j + alike
        end, new_end = _alike_again(old, new, i, j)
        if (end, new_end) != (i, j):
            yield i, end, new[j:new_end]
        i, j = end, new_end


def _alike_again(old: bytes, new: bytes, i: int, j: int) -> tuple[int, int]:
    """Return the places after a difference from which both texts are alike again: of the next lines, the first that both have."""
    at = i
    for _ in range(_PROBES):
        at = old.find(b"\n", at) + 1
        if not at or at + _ANCHOR > len(old):
            break
        if (found := new.find(old[at : at + _ANCHOR], j)) >= 0:
            return at, found
    return len(old), len(new)


def _alike(first: bytes, second: bytes) -> int:
    """Return the number of bytes at the start that are the same."""
    if not (n := min(len(first), len(second))):
        return 0
    differ = np.frombuffer(first, np.uint8, n) != np.frombuffer(second, np.uint8, n)
    return int(differ.argmax()) if differ.any() else n


def _edited(text: bytes, delta: _Delta) -> bytes:
    parts: list[bytes] = []
    last = 0
    for start, end, new in delta.edits:
        parts += text[last:start], new.encode()
        last = end
    return b"".join((*parts, text[last:]))
