"""Answer sets in a repository: finding and reading them, always at one pinned revision."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

import orjson
import pyarrow as pa
from pydantic import ValidationError

from regrade.answers.base import Repository, StoredFile
from regrade.answers.manifest import Manifest, Shard
from regrade.answers.parquet import MAX_FILE_BYTES, ParquetReader
from regrade.answers.scorefile import ScoreFile
from regrade.answers.spool import RowKey, row_keys
from regrade.errors import DamagedAnswersError, RepositoryError
from regrade.records import GENERATION_SCHEMA, SCHEMA_VERSION, SCORE_SCHEMA
from regrade.settings import Settings
from regrade.specification import Specification, path_component

MAX_JSON_BYTES = 32 * 2**20
"""Of a manifest or the JSON of a scoring; one with ten thousand shards has two million."""
Document = TypeVar("Document", bound=Settings)


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """An answer set at one revision of a repository."""

    repository: Repository
    revision: str
    manifest: Manifest

    @property
    def folder(self) -> str:
        """Folder of manifest and shards in the repository."""
        return f"answers/{self.manifest.specification.folder}"

    @property
    def scores_folder(self) -> str:
        """Folder of the scores in the repository."""
        return f"scores/{self.manifest.specification.folder}"

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the generations shard by shard, a few thousand rows at a time.

        Args:
            columns: Names out of `GENERATION_SCHEMA`.

        Raises:
            DamagedAnswersError: If a shard is not what the manifest says.
        """
        for shard in self.manifest.shards:
            yield from self.shard(shard, columns).batches()

    def keys(self) -> set[RowKey]:
        """Return the sample and repeat of every generation."""
        found: set[RowKey] = set()
        for batch in self.batches(["sample_id", "repeat"]):
            found.update(row_keys(pa.Table.from_batches([batch])))
        return found

    def scores(self) -> list[ScoreFile]:
        """Return what is kept of all scorings of this answer set.

        Raises:
            DamagedAnswersError: If one is not a scoring, belongs elsewhere, or is newer than this version reads.
        """
        files = self.repository.files(self.revision, self.scores_folder)
        return [self.score_file(files[path]) for path in sorted(files) if path.endswith(".json")]

    def readable_scores(self) -> list[ScoreFile]:
        """Return what is kept of all scorings that can be read."""
        found: list[ScoreFile] = []
        for path, file in sorted(self.repository.files(self.revision, self.scores_folder).items()):
            if path.endswith(".json"):
                with suppress(DamagedAnswersError):
                    found.append(self.score_file(file))
        return found

    def score_file(self, file: StoredFile) -> ScoreFile:
        """Return what is kept of a scoring; see `scores`."""
        path, what = file.path, "the JSON of a scoring"
        found = read_json(self.repository, path, self.revision, ScoreFile, what, file.size)
        if path != f"{self.scores_folder}/{found.label}.json":
            raise DamagedAnswersError(
                path, f"it is of '{found.label}', and belongs under that name."
            )
        if found.answer_set_id != self.manifest.answer_set_id:
            raise DamagedAnswersError(path, f"it is of answer set '{found.answer_set_id}'.")
        return found

    def score_table(self, label: str) -> pa.Table:
        """Return the scores of one scoring: `SCORE_SCHEMA`, one row per generation.

        Raises:
            DamagedAnswersError: If it is not there, or not a table of scores.
        """
        path = f"{self.scores_folder}/{label}.parquet"
        known = self.repository.files(self.revision, self.scores_folder).get(path)
        if known is None:
            raise DamagedAnswersError(path, "there is JSON of this scoring, but no table.")
        _check_size(path, known.size, MAX_FILE_BYTES)
        local = self.repository.fetch(path, self.revision)
        return ParquetReader(path, local, SCORE_SCHEMA, SCORE_SCHEMA.names).table()

    def only(self, shards: Collection[str]) -> "AnswerSet":
        """Return the answer set with no other shards than these (sha256)."""
        kept = tuple(shard for shard in self.manifest.shards if shard.sha256 in shards)
        changes = {"shards": kept, "rows": sum(shard.rows for shard in kept)}
        return replace(self, manifest=self.manifest.model_copy(update=changes))

    def shard(self, shard: Shard, columns: Sequence[str]) -> ParquetReader:
        """Return the reader of one shard, which is what the manifest says.

        Raises:
            DamagedAnswersError: If it is not.
        """
        path = f"{self.folder}/{shard.name}"
        known = self.repository.files(self.revision, self.folder).get(path)
        if known is None:
            raise DamagedAnswersError(path, "the manifest lists it, but it is not there.")
        if known.size != shard.bytes or known.sha256 not in (None, shard.sha256):
            raise DamagedAnswersError(
                path,
                f"the manifest says {shard.bytes} bytes with sha256 {shard.sha256}, there are "
                f"{known.size} bytes with sha256 {known.sha256}.",
            )
        _check_size(path, known.size, MAX_FILE_BYTES)
        local = self.repository.fetch(path, self.revision)
        reader = ParquetReader(path, local, GENERATION_SCHEMA, columns)
        if reader.rows != shard.rows:
            raise DamagedAnswersError(
                path, f"the manifest says {shard.rows} rows, there are {reader.rows}."
            )
        return reader


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
    _check_size(path, size, MAX_JSON_BYTES)
    content = repository.fetch(path, revision).read_bytes()
    _check_size(path, len(content), MAX_JSON_BYTES)
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


def _check_size(path: str, size: int, limit: int) -> None:
    if size > limit:
        raise DamagedAnswersError(path, f"it has {size:,} bytes; up to {limit:,} are read.")


def find_set(
    repository: Repository, specification: Specification, revision: str | None
) -> AnswerSet | None:
    """Return the answer set of a specification at a revision, or None where there is none yet."""
    if revision is None:
        return None
    folder = f"answers/{specification.folder}"
    path = f"{folder}/manifest.json"
    known = repository.files(revision, folder).get(path)
    if known is None:
        return None
    return AnswerSet(repository, revision, read_manifest(repository, path, revision, known.size))


def list_sets(
    repository: Repository,
    revision: str,
    *,
    benchmark: str | None = None,
    model: str | None = None,
    answer_set_id: str | None = None,
) -> list[AnswerSet]:
    """Return the answer sets at a revision, oldest first.

    Args:
        repository: Where to look.
        revision: 40-digit revision.
        benchmark: Only this benchmark.
        model: Only this model, by name, by its last part (`org/name` or `name`) or by its folder.
        answer_set_id: Only this one; the first digits are enough where they are unambiguous.

    Raises:
        RepositoryError: If `answer_set_id` fits no answer set, or several.
        DamagedAnswersError: If a manifest cannot be read.
    """
    found, damaged = readable_sets(
        repository, revision, benchmark=benchmark, model=model, answer_set_id=answer_set_id
    )
    if damaged:
        raise damaged[0]
    return found


def readable_sets(
    repository: Repository,
    revision: str,
    *,
    benchmark: str | None = None,
    model: str | None = None,
    answer_set_id: str | None = None,
) -> tuple[list[AnswerSet], list[DamagedAnswersError]]:
    """Return the answer sets whose manifest can be read, oldest first, and what is wrong with the others.

    Args and errors are those of `list_sets`.
    """
    files = repository.files(revision, "answers")
    paths = [
        path
        for path in manifest_paths(files)
        if _fits(PurePosixPath(path).parts, benchmark, model, answer_set_id)
    ]
    if answer_set_id is not None and len(paths) != 1:
        matches = ", ".join(PurePosixPath(path).parts[3] for path in paths) or "none"
        raise RepositoryError(
            repository.uri,
            f"'{answer_set_id}' should fit one answer set, it fits {matches}. See `regrade list`.",
        )
    found: list[AnswerSet] = []
    damaged: list[DamagedAnswersError] = []
    for path in paths:
        try:
            manifest = read_manifest(repository, path, revision, files[path].size)
            found.append(AnswerSet(repository, revision, manifest))
        except DamagedAnswersError as error:
            damaged.append(error)
    return sorted(found, key=lambda entry: entry.manifest.created_at), damaged


def manifest_paths(files: Iterable[str]) -> list[str]:
    """Return those paths that are of manifests."""
    return [
        path
        for path in sorted(files)
        if len(parts := PurePosixPath(path).parts) == 5 and parts[4] == "manifest.json"
    ]


def _fits(
    parts: Sequence[str], benchmark: str | None, model: str | None, answer_set_id: str | None
) -> bool:
    return (
        (benchmark is None or parts[1] == benchmark)
        and (answer_set_id is None or parts[3].startswith(answer_set_id))
        and (model is None or _is_model(model, parts[2]))
    )


def _is_model(asked: str, slug: str) -> bool:
    if asked.startswith((".", "/", "~")) or asked.count("/") > 1:
        # A folder, under the names that regrade/models/local.py gives one.
        *_, above, last = ("", "", *Path(asked).expanduser().resolve().parts)
        return slug in (path_component(last), path_component(f"{above}/{last}"))
    own = path_component(asked)
    return slug == own or ("/" not in asked and slug.split("--")[-1] == own)
