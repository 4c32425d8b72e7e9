"""Manifests and other JSON documents of a repository, read as untrusted input."""

from collections import Counter
from typing import TypeVar

import orjson
from pydantic import ValidationError

from regrade.answers.base import Repository
from regrade.answers.manifest import Manifest
from regrade.errors import DamagedAnswersError
from regrade.records import SCHEMA_VERSION
from regrade.settings import Settings

MAX_JSON_BYTES = 32 * 2**20
"""Largest manifest or score file read, in bytes; 10,000 shards take 2 MB."""
Document = TypeVar("Document", bound=Settings)


def read_manifest(repository: Repository, path: str, revision: str, size: int = 0) -> Manifest:
    """Return the manifest at a path.

    Args:
        repository: Where it lies.
        path: `answers/<benchmark>/<model>/<answer_set_id>/manifest.json`.
        revision: 40-digit revision.
        size: Its size in bytes, where it is known before it is fetched.

    Raises:
        DamagedAnswersError: If it is not a manifest, belongs elsewhere, or is newer than this version reads.
    """
    manifest = read_json(repository, path, revision, Manifest, "a manifest", size)
    specified = manifest.specification
    if specified.answer_set_id != manifest.answer_set_id:
        raise DamagedAnswersError(path, "its specification does not give its answer set id.")
    if path != f"answers/{specified.folder}/manifest.json":
        raise DamagedAnswersError(
            path, f"its specification belongs in 'answers/{specified.folder}'."
        )
    if not manifest.scorers:
        raise DamagedAnswersError(path, "it names no scorer.")
    if None in (manifest.created_at.tzinfo, manifest.updated_at.tzinfo):
        raise DamagedAnswersError(
            path, "its `created_at` and `updated_at` should name a time zone."
        )
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
    repository: Repository, path: str, revision: str, kind: type[Document], what: str, size: int
) -> Document:
    """Return a JSON file of a repository, which may come from a stranger.

    Args:
        repository: Where it lies.
        path: Its path.
        revision: 40-digit revision.
        kind: What it should be.
        what: The same as words, for errors.
        size: Its size in bytes, 0 where it is not known before it is fetched.

    Raises:
        DamagedAnswersError: If it is something else, too large, or newer than this version reads.
    """
    check_size(path, size, MAX_JSON_BYTES)
    content = repository.fetch(path, revision).read_bytes()
    check_size(path, len(content), MAX_JSON_BYTES)
    try:
        _check_version(path, content)
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])[:200]
        raise DamagedAnswersError(path, f"not {what}: {where}: {first['msg'][:200]}.") from error


def _check_version(path: str, content: bytes) -> None:
    """Refuse what is newer first: it may hold fields that this version does not know."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return  # the model says better what is wrong
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DamagedAnswersError(
            path,
            f"written with schema {version}, this regrade reads up to {SCHEMA_VERSION}; upgrade regrade.",
        )


def check_size(path: str, size: int, limit: int) -> None:
    """Refuse a file of more than `limit` bytes.

    Raises:
        DamagedAnswersError: If it is larger.
    """
    if size > limit:
        raise DamagedAnswersError(path, f"it has {size:,} bytes; up to {limit:,} are read.")
