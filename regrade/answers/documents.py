"""Manifests and other JSON documents of a repository, read as untrusted input."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from regrade.answers.base import Repository, file_at
from regrade.answers.manifest import Manifest
from regrade.answers.parquet import MAX_FILE_BYTES
from regrade.records.columns import SCHEMA_VERSION
from regrade.records.specification import IMAGES, REPLAYS, specification_id
from regrade.settings import StrictModel
from regrade.settings.errors import DamagedAnswersError, OperationError

MAX_JSON_BYTES = 32 * 2**20
"""Largest manifest or score file read, in bytes; 10,000 shards take 2 MB."""
_TRIES = 5
"""Most times that a file is read: between check and reading, another process may put a newer one at its path."""
Document = TypeVar("Document", bound=StrictModel)


def read_manifest(repository: Repository, path: str, revision: str) -> Manifest:
    """Return the manifest at a path.

    Args:
        repository: Repository to read from.
        path: `answers/<benchmark>/<model>/<answer_set_id>/manifest.json`.
        revision: 40-digit revision.

    Raises:
        DamagedAnswersError: If it is not a manifest, lies at the wrong path, or was written by a newer regrade.
    """
    content = _content(repository, path, revision)
    manifest = _parsed(path, content, Manifest, "a manifest")
    specified = manifest.specification
    # Computed from the stored JSON, so that a newer field that it lacks does not change the id.
    if specification_id(orjson.loads(content)["specification"]) != manifest.answer_set_id:
        raise DamagedAnswersError(path, "its answer set id is not that of its specification.")
    try:
        folder = specified.answers_folder
    except TypeError as error:  # of orjson
        problem = "its specification has a whole number of more than 64 bits."
        raise DamagedAnswersError(path, problem) from error
    if path != f"{folder}/manifest.json":
        raise DamagedAnswersError(path, f"by its specification it belongs in '{folder}'.")
    if not manifest.scorers and not path.startswith(REPLAYS):
        raise DamagedAnswersError(path, "it names no scorer; expected at least one.")
    rows = sum(shard.rows for shard in manifest.shards)
    if manifest.rows != rows:
        raise DamagedAnswersError(
            path, f"it says {manifest.rows:,} rows, its shards have {rows:,} together."
        )
    names = [shard.name for shard in manifest.shards]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DamagedAnswersError(path, f"it lists '{twice[0]}' more than once.")
    return manifest


def read_json(
    repository: Repository, path: str, revision: str, kind: type[Document], what: str
) -> Document:
    """Return a JSON file of a repository, read as untrusted input.

    Args:
        repository: Repository to read from.
        path: Path of the file.
        revision: 40-digit revision.
        kind: Model that it must match.
        what: The model in words, for error messages.

    Raises:
        DamagedAnswersError: If it does not match, is too large, or was written by a newer regrade.
    """
    return _parsed(path, _content(repository, path, revision), kind, what)


def find_json(
    repository: Repository, path: str, revision: str | None, kind: type[Document], what: str
) -> Document | None:
    """Return a JSON file as `read_json` does; None if there is no such file, or no revision yet."""
    if not revision or file_at(repository, path, revision) is None:
        return None
    return read_json(repository, path, revision, kind, what)


def _content(repository: Repository, path: str, revision: str) -> bytes:
    stored = file_at(repository, path, revision)
    sha256 = stored and stored.sha256
    check_size(path, stored.size if stored else 0, MAX_JSON_BYTES)  # before it is downloaded
    for _ in range(_TRIES):
        content = repository.fetch(path, revision).read_bytes()
        check_size(path, len(content), MAX_JSON_BYTES)
        if sha256 in (None, hashlib.sha256(content).hexdigest()):
            return content
    raise DamagedAnswersError(path, "it had another content each time that it was read.")


def _parsed(path: str, content: bytes, kind: type[Document], what: str) -> Document:
    no_json = _check_version(path, content)
    try:
        document = kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in [".".join(map(str, first["loc"]))[:200]] if part)
        raise DamagedAnswersError(path, f"not {what}: {where}{first['msg'][:200]}.") from error
    if no_json:  # such as a NaN among settings of any type
        raise DamagedAnswersError(path, f"not {what}: {no_json}.")
    return document


def json_bytes(document: BaseModel) -> bytes:
    """Return a document in its stored form."""
    return document.model_dump_json(indent=2).encode() + b"\n"


def _check_version(path: str, content: bytes) -> str:
    """Refuse newer versions before validation, because they can have unknown fields; return why it is no JSON, or ""."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        return str(error)  # pydantic gives the better message
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DamagedAnswersError(
            path,
            f"written with schema {version}, this regrade reads up to {SCHEMA_VERSION}; upgrade regrade.",
        )
    return ""


def check_size(path: str, size: int, limit: int) -> None:
    """Refuse a file of more than `limit` bytes.

    Raises:
        DamagedAnswersError: If it is larger.
    """
    if size > limit:
        raise DamagedAnswersError(path, f"it has {size:,} bytes, the limit is {limit:,}.")


def fetch_listed(
    repository: Repository, revision: str, path: str, size: int, sha256: str
) -> Callable[[], Path]:
    """Return a function that fetches a shard, after comparing it with what the document says that lists it.

    Args:
        repository: Repository to read from.
        revision: 40-digit revision.
        path: Path of the shard.
        size: Its size in bytes, by the document in its folder.
        sha256: Its hash, by the document.

    Raises:
        DamagedAnswersError: If it is missing, different or too large.
    """
    document = "list of images" if path.startswith(IMAGES) else "manifest"
    known = file_at(repository, path, revision)
    if known is None:
        raise DamagedAnswersError(path, f"the {document} lists it, but it does not exist.")
    if known.size != size or known.sha256 not in (None, sha256):
        raise DamagedAnswersError(
            path,
            f"the {document} says {size} bytes with sha256 {sha256}, the file has {known.size} bytes with sha256 "
            f"{known.sha256}.",
        )
    check_size(path, known.size, MAX_FILE_BYTES)
    return partial(repository.fetch, path, revision)


# Results of verifying a repository.

HEAL = "The `regrade evaluate` command of these answers with `--heal` generates again what is lost."
"""Advice for damaged or missing shards."""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A damaged or unexpected file."""

    path: str
    problem: str


@dataclass(slots=True)
class Verified:
    """Counts of the verified parts, and the problems."""

    answer_sets: int = 0
    shards: int = 0
    damaged_shards: int = 0
    rows: int = 0
    scorings: int = 0
    problems: list[FileProblem] = field(default_factory=list)


class NotIntactError(OperationError):
    """Verification found problems, which were reported before."""

    def __init__(self, uri: str, problems: int, damaged_shards: int) -> None:
        self.uri, self.problems, self.damaged_shards = uri, problems, damaged_shards
        super().__init__(uri, problems, damaged_shards)

    def __str__(self) -> str:
        count = "1 problem" if self.problems == 1 else f"{self.problems} problems"
        advice = (
            f" `regrade score --intact` scores the intact shards of a damaged answer set. {HEAL}"
        )
        return f"{count} in '{self.uri}'.{advice if self.damaged_shards else ''}"
