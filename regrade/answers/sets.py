"""Find and read the answer sets of a repository at a pinned revision."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import pyarrow as pa

from regrade.answers.base import Repository, StoredFile, file_at
from regrade.answers.documents import check_size, fetch_listed, read_json, read_manifest
from regrade.answers.images import StoredImages
from regrade.answers.manifest import Manifest, Shard
from regrade.answers.parquet import MAX_FILE_BYTES, ParquetReader, together
from regrade.answers.rows import STATE_COLUMNS, RowStates, ShardStates, row_states
from regrade.answers.scorefile import ScoreFile, SetDocument
from regrade.answers.withheld import COLUMNS as WITHHELD
from regrade.answers.withheld import EMPTY, WithheldQuestions, questions_at_hand
from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA
from regrade.records.specification import RESULTS, Specification, path_component
from regrade.settings import ANSWER_SET_START
from regrade.settings.errors import DamagedAnswersError, RepositoryError
from regrade.settings.files import at_home

logger = logging.getLogger("regrade.answers")
Record = TypeVar("Record", bound=SetDocument)


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """An answer set at one revision of a repository."""

    repository: Repository
    revision: str
    manifest: Manifest

    @property
    def folder(self) -> str:
        """Folder of manifest and shards in the repository."""
        return self.manifest.specification.answers_folder

    @property
    def scores_folder(self) -> str:
        """Folder of the scores in the repository."""
        return f"scores/{self.manifest.specification.folder}"

    @property
    def labels_folder(self) -> str:
        """Folder of people's labels in the repository."""
        return f"labels/{self.manifest.specification.folder}"

    @property
    def hashes(self) -> tuple[str, ...]:
        """sha256 of each shard, in order."""
        return tuple(shard.sha256 for shard in self.manifest.shards)

    @property
    def images(self) -> StoredImages:
        """Images of the benchmark that are kept beside the answers."""
        benchmark = self.manifest.specification.benchmark.name
        return StoredImages(self.repository, self.revision, benchmark)

    def absent_image(self, sha256: str, number: int) -> str:
        """Return what is said in place of an image that is not stored.

        Args:
            sha256: The image.
            number: Number of the question that shows it.
        """
        if self.manifest.images == "stored":
            return f"[image {sha256[:8]} is missing]"
        benchmark = self.manifest.specification.benchmark
        revision = benchmark.source_revision[:12]
        return f"[image of {benchmark.source}@{revision}, row {number}, not copied]"

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the generations in stored order, a few thousand rows at a time; with withheld questions, if they are at hand.

        Args:
            columns: Names out of `GENERATION_SCHEMA`.

        Raises:
            DamagedAnswersError: If a shard does not match the manifest.
        """
        if not self.manifest.withheld or not set(columns) & set(WITHHELD):
            yield from self._batches(columns)
            return
        questions = self.questions
        for batch in self._batches(list(dict.fromkeys(["sample_id", *columns]))):
            yield questions.joined(batch, columns)

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return together(
            batch
            for shard in self.manifest.shards
            for batch in self.shard(shard, columns).batches()
        )

    @property
    def questions(self) -> WithheldQuestions:
        """Questions at hand of an answer set whose questions are withheld."""
        return questions_at_hand(self.manifest.answer_set_id, self.manifest.n_samples)

    def public(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row as it may leave this machine: without a question that must not be published.

        Args:
            row: Any columns of `GENERATION_SCHEMA`.
        """
        hidden = EMPTY if self.manifest.withheld else {}
        return {name: hidden.get(name, value) for name, value in row.items()}

    def states(self, known: ShardStates | None = None) -> RowStates:
        """Return the state of every row; see `ShardStates.together`.

        Args:
            known: States of shards that need not be read; those of the others are added.
        """
        known = ShardStates() if known is None else known
        for shard in self.manifest.shards:
            if shard.sha256 not in known:
                known[shard.sha256] = row_states(self.shard(shard, STATE_COLUMNS).batches())
        return known.together(shard.sha256 for shard in self.manifest.shards)

    def scores(self, start: str = "") -> list[ScoreFile]:
        """Return the score files of this answer set that a command is about.

        Args:
            start: Beginning of their names, such as a scorer's `code_label`. Default: all.

        Raises:
            DamagedAnswersError: If a file is not a scoring, has the wrong name, or was written by a newer regrade; or if answers
                are missing or have another size (`damaged_shards`).
        """
        files, damaged = self.scores_and_damage(start)
        if damaged:
            raise damaged[0]
        return files

    def intact_scores(self) -> list[ScoreFile]:
        """Return the score files whose numbers may be shown, to look through; the log names those that cannot be read, once."""
        files, damaged = self.scores_and_damage()
        for error in damaged:
            if error.path.startswith(self.scores_folder):
                _warn_once(self.repository.uri, self.revision, f"a scoring is left out: {error}")
        return files

    def scores_and_damage(
        self, start: str = ""
    ) -> tuple[list[ScoreFile], list[DamagedAnswersError]]:
        """Return the score files whose numbers may be shown, and the errors of the others and of the answers; see `scores`."""
        files, damaged = self.readable_scores(start)
        gone = self.damaged_shards()
        intact = [file for file in files if not gone.keys() & set(file.answers)]
        return intact, [*damaged, *gone.values()]

    def readable_scores(self, start: str = "") -> tuple[list[ScoreFile], list[DamagedAnswersError]]:
        """Return the score files that can be read, whether or not their answers are there, and the errors of the others."""
        records: list[ScoreFile] = []
        damaged: list[DamagedAnswersError] = []
        first = f"{self.scores_folder}/{start}"
        for path, file in sorted(self.repository.files(self.revision, self.scores_folder).items()):
            if path.startswith(first) and path.endswith(".json"):
                try:
                    records.append(self.score_file(file))
                except DamagedAnswersError as error:
                    damaged.append(error)
        return records, damaged

    def score_file(self, file: StoredFile) -> ScoreFile:
        """Return the score file of one scoring; errors as in `scores`."""
        return self.read_record(file, ScoreFile, "the JSON of a scoring")

    def read_record(self, file: StoredFile, kind: type[Record], what: str) -> Record:
        """Return a JSON file about this answer set.

        Args:
            file: The file.
            kind: Model that it must match.
            what: The model in words, for error messages.

        Raises:
            DamagedAnswersError: If it does not match, has the wrong name, or is about another answer set.
        """
        record = read_json(self.repository, file.path, self.revision, kind, what)
        if file.path.rpartition("/")[2] != f"{record.label}.json":
            raise DamagedAnswersError(file.path, f"its name should be '{record.label}.json'.")
        if record.answer_set_id != self.manifest.answer_set_id:
            raise DamagedAnswersError(
                file.path, f"it belongs to answer set '{record.answer_set_id}'."
            )
        return record

    def table_file(self, path: str, missing: str) -> Path:
        """Return a local file with the table beside a JSON file.

        Args:
            path: Path of the table in the repository.
            missing: Problem if there is none.

        Raises:
            DamagedAnswersError: If it is missing or too large.
        """
        known = file_at(self.repository, path, self.revision)
        if known is None:
            raise DamagedAnswersError(path, missing)
        check_size(path, known.size, MAX_FILE_BYTES)
        return self.repository.fetch(path, self.revision)

    def score_table(self, file: ScoreFile) -> pa.Table:
        """Return the table of a scoring: `SCORING_SCHEMA`, one row per scored generation.

        Raises:
            DamagedAnswersError: If it is missing, not a table of scores, or has another number of rows than the scored answers.
        """
        path = f"{self.scores_folder}/{file.label}.parquet"
        missing = (
            "the scoring has a JSON file, but no table. `regrade score --force` makes it again."
        )
        local = self.table_file(path, missing)
        table = ParquetReader(path, local, SCORING_SCHEMA, SCORING_SCHEMA.names).table()
        scored = self.only(file.answers).manifest
        are_here = len(scored.shards) == len(file.answers)  # else some are only at older revisions
        if are_here and table.num_rows != scored.rows:
            raise DamagedAnswersError(
                path,
                f"it has {table.num_rows:,} rows, the scored answers have {scored.rows:,}. Score them again with `regrade score "
                "--force`.",
            )
        return table

    def other_rows(self, file: ScoreFile) -> DamagedAnswersError:
        """Return the error of a score table whose rows are not those of the scored answers; found where both are read."""
        path = f"{self.scores_folder}/{file.label}.parquet"
        problem = "its rows do not match the scored answers. Score them again with `regrade score --force`."
        return DamagedAnswersError(path, problem)

    def only(self, shards: Collection[str]) -> "AnswerSet":
        """Return the answer set reduced to shards with the given sha256."""
        wanted = set(shards)
        kept = tuple(shard for shard in self.manifest.shards if shard.sha256 in wanted)
        changes = {"shards": kept, "rows": sum(shard.rows for shard in kept)}
        return replace(self, manifest=self.manifest.model_copy(update=changes))

    def shard(self, shard: Shard, columns: Sequence[str]) -> ParquetReader:
        """Return the reader of a shard, after checking the shard against the manifest.

        Raises:
            DamagedAnswersError: If it does not match.
        """
        path = f"{self.folder}/{shard.name}"
        fetch = fetch_listed(self.repository, self.revision, path, shard.bytes, shard.sha256)
        reader = ParquetReader(path, fetch(), GENERATION_SCHEMA, columns, fetch)
        if reader.rows != shard.rows:
            raise DamagedAnswersError(
                path, f"the manifest says {shard.rows} rows, the file has {reader.rows}."
            )
        return reader

    def damaged_shards(self) -> dict[str, DamagedAnswersError]:
        """Return the errors of shards that are missing or have another size, by sha256.

        Nothing is read, so that it may be asked wherever a stored number is shown; `verify` finds all damage.
        """
        damaged: dict[str, DamagedAnswersError] = {}
        files = self.repository.files(self.revision, self.folder)
        for shard in self.manifest.shards:
            path = f"{self.folder}/{shard.name}"
            try:
                fetch = fetch_listed(
                    self.repository, self.revision, path, shard.bytes, shard.sha256
                )
                if not self.repository.holds(files[path]):
                    fetch()
            except DamagedAnswersError as error:
                damaged[shard.sha256] = error
        return damaged


def find_set(
    repository: Repository, specification: Specification, revision: str | None
) -> AnswerSet | None:
    """Return the answer set of a specification at a revision, or None if it does not exist yet."""
    if revision is None:
        return None
    path = f"{specification.answers_folder}/manifest.json"
    if file_at(repository, path, revision) is None:
        return None
    return AnswerSet(repository, revision, read_manifest(repository, path, revision))


class Filters(TypedDict, total=False):
    """Choice of answer sets, before anything is read. Default: all whose results count."""

    benchmark: str | None
    """Only this benchmark."""
    model: str | None
    """Only this model, given as name, last part of a name (`org/name` or `name`) or folder."""
    answer_set_id: str | None
    """Only this answer set; the first digits are enough if they are unambiguous."""
    tops: Sequence[str]
    """Top folders to look into. Default: only where results are; those of `TOPS` also hold answers that are none."""
    where: Callable[[str], bool]
    """Only those of a `Specification.folder` for which it returns True."""


def list_sets(repository: Repository, revision: str, **filters: Unpack[Filters]) -> list[AnswerSet]:
    """Return the answer sets at a 40-digit revision, oldest first.

    Raises:
        RepositoryError: If `answer_set_id` matches no answer set, or several.
        DamagedAnswersError: If a manifest cannot be read.
    """
    sets, damaged = readable_sets(repository, revision, **filters)
    if damaged:
        raise damaged[0]
    return sets


def readable_sets(
    repository: Repository, revision: str, **filters: Unpack[Filters]
) -> tuple[list[AnswerSet], list[DamagedAnswersError]]:
    """Return the answer sets with a readable manifest, oldest first, and the errors of the others.

    Raises:
        RepositoryError: If `answer_set_id` matches no answer set, or several.
    """
    tops = filters.get("tops", (RESULTS,))
    files = [path for top in tops for path in repository.files(revision, top)]
    paths = [path for path in manifest_paths(files) if _fits(path, filters)]
    if (asked := filters.get("answer_set_id")) is not None and len(paths) != 1:
        matches = ", ".join(path.split("/")[3] for path in paths) or "none"
        raise RepositoryError(
            repository.uri,
            f"'{asked}' should match one answer set, it matches {matches}. See `regrade list`.",
        )
    sets: list[AnswerSet] = []
    damaged: list[DamagedAnswersError] = []
    for path in paths:
        try:
            manifest = read_manifest(repository, path, revision)
            sets.append(AnswerSet(repository, revision, manifest))
        except DamagedAnswersError as error:
            damaged.append(error)
    return sorted(sets, key=lambda answers: answers.manifest.created_at), damaged


def intact_sets(
    repository: Repository, revision: str, **filters: Unpack[Filters]
) -> list[AnswerSet]:
    """Return the answer sets with a readable manifest, oldest first; the log names each that is left out, once."""
    sets, damaged = readable_sets(repository, revision, **filters)
    name_left_out(repository, revision, damaged)
    return sets


def name_left_out(
    repository: Repository, revision: str, damaged: Iterable[DamagedAnswersError]
) -> None:
    """Name damaged answer sets in the log, each once for a revision, however often a command reads it."""
    for error in damaged:
        _warn_once(repository.uri, revision, f"an answer set is left out: {error}")


@lru_cache(maxsize=1000)
def _warn_once(uri: str, revision: str, text: str) -> None:  # noqa: ARG001 - part of the key
    logger.warning("%s", text)


def begins_an_id(name: str, ids: Iterable[str]) -> bool:
    """Return True if a name is four digits or more with which an id begins."""
    return ANSWER_SET_START.fullmatch(name) is not None and any(i.startswith(name) for i in ids)


def manifest_paths(files: Iterable[str]) -> list[str]:
    """Return the paths of manifests, sorted."""
    return [
        path for path in sorted(files) if path.count("/") == 4 and path.endswith("/manifest.json")
    ]


def _fits(path: str, filters: Filters) -> bool:
    _, of_benchmark, of_model, set_id, _ = path.split("/")
    benchmark, model = filters.get("benchmark"), filters.get("model")
    return (
        (benchmark is None or of_benchmark == path_component(benchmark))
        and (model is None or _is_model(model, of_model))
        and set_id.startswith(filters.get("answer_set_id") or "")
        and filters.get("where", bool)(f"{of_benchmark}/{of_model}/{set_id}")
    )


def _is_model(asked: str, slug: str) -> bool:
    if asked.startswith((".", "/", "~")) or asked.count("/") > 1:
        # A folder: compare with both names that regrade/models/local.py can give it.
        *_, above, last = ("", "", *at_home(asked).resolve().parts)
        return slug in (path_component(last), path_component(f"{above}/{last}"))
    component = path_component(asked)
    return slug == component or ("/" not in asked and slug.split("--")[-1] == component)
