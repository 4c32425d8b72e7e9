"""Verify an answer repository: checksums, row counts, duplicates, schema, manifests, scores."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from regrade.answers.aliases import FOLDER, aliased_sets, read_alias
from regrade.answers.base import Repository, StoredFile
from regrade.answers.counts import COLUMNS, count_rows
from regrade.answers.labelfile import FOLDER as LABELS
from regrade.answers.labelfile import labels_folder, read_labels
from regrade.answers.manifest import Manifest, Shard, state_of
from regrade.answers.problems import Problem, Verified
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.answers.verify_scores import verify_scores
from regrade.columns import GENERATION_SCHEMA, KEYS
from regrade.errors import DamagedAnswersError
from regrade.stats.estimates import IntArray


def verify(repository: Repository, revision: str, answer_set_id: str | None = None) -> Verified:
    """Check all files of a repository at a revision.

    Args:
        repository: Repository to check.
        revision: 40-digit revision.
        answer_set_id: First digits of the only answer set to check. None: check all files.

    Raises:
        RepositoryError: If `answer_set_id` matches no answer set, or several.
        HubError: If the repository cannot be read.
    """
    sets, damaged = readable_sets(repository, revision, answer_set_id=answer_set_id)
    verified = Verified(answer_sets=len(sets) + len(damaged))
    verified.problems += [Problem(error.path, error.problem) for error in damaged]
    for answers in sets:
        for number, shard in enumerate(answers.manifest.shards):
            in_order = shard.name[5:10] == f"{number:05d}" or answers.manifest.replaced
            if not in_order or shard.name[11:19] != shard.sha256[:8]:
                path = f"{answers.folder}/{shard.name}"
                verified.problems.append(
                    Problem(path, "its name does not match its number and sha256.")
                )
        intact, problems = intact_part(answers)
        verified.shards += len(answers.manifest.shards)
        verified.rows += intact.manifest.rows
        verified.problems += problems
        if not problems and (wrong := _state_problem(answers.manifest)):
            verified.problems.append(Problem(f"{answers.folder}/manifest.json", wrong))
        verified.problems += _strays(answers)
        verify_scores(answers, intact, verified)
        verified.problems += _label_problems(answers)
    if answer_set_id is None:
        verified.problems += _orphans(repository, revision)
        verified.problems += _alias_problems(repository, revision)
    return verified


def intact_part(answers: AnswerSet) -> tuple[AnswerSet, list[Problem]]:
    """Return the answer set reduced to its intact shards, and the problems of the others.

    Every column is read. A shard that repeats a row of an earlier shard is not intact.
    """
    keys = _Keys(answers.manifest)
    kept: list[str] = []
    problems: list[Problem] = []
    for shard in answers.manifest.shards:
        try:
            keys.add(shard, _read(answers, shard), answers.folder)
            kept.append(shard.sha256)
        except DamagedAnswersError as error:
            problems.append(Problem(f"{answers.folder}/{shard.name}", error.problem))
    return (answers.only(kept) if problems else answers), problems


def check_rows(answers: AnswerSet, rows: pa.Table) -> None:
    """Refuse duplicate and impossible combinations of sample and repeat.

    Args:
        answers: Answer set.
        rows: Columns `sample_id` and `repeat` of all shards in order.

    Raises:
        DamagedAnswersError: If there are any; it names the shard.
    """
    # Checking all shards at once is fast. After an error, check one by one to find the shard.
    keys = _Keys(answers.manifest)
    try:
        keys.add(None, rows, answers.folder)
    except DamagedAnswersError:
        keys, start = _Keys(answers.manifest), 0
        for shard in answers.manifest.shards:
            keys.add(shard, rows.slice(start, shard.rows), answers.folder)
            start += shard.rows
        raise


class _Keys:
    """The samples and repeats seen so far: 16 bytes per row, plus the text of each sample id once."""

    def __init__(self, manifest: Manifest) -> None:
        self._repeats = manifest.specification.repeats
        self._samples = manifest.n_samples
        self._ids: pa.Array[Any] = pa.array([], pa.string())
        self._seen: IntArray = np.empty(0, np.int64)

    def add(self, shard: Shard | None, rows: pa.Table, folder: str) -> None:
        """Add all rows of a shard, or none if it raises `DamagedAnswersError`."""
        path = f"{folder}/{shard.name}" if shard else folder
        repeat = rows["repeat"].to_numpy().astype(np.int64)
        if repeat.size and not 0 <= repeat.min() <= repeat.max() < self._repeats:
            wrong = int(repeat[(repeat < 0) | (repeat >= self._repeats)][0])
            raise DamagedAnswersError(
                path, f"it has repeat {wrong}, expected 0 to {self._repeats - 1}."
            )
        chunks = [self._ids, *rows["sample_id"].chunks]
        sample, distinct = _encoded(pa.chunked_array(chunks, pa.string()))
        if len(distinct) > self._samples:
            raise DamagedAnswersError(
                path,
                f"with it the answer set has more than the {self._samples:,} samples of the manifest.",
            )
        sample = sample[len(self._ids) :]
        new = sample * self._repeats + repeat
        first = np.unique(new, return_index=True)[1]
        duplicate = np.ones(len(new), np.bool_)
        duplicate[first] = False
        duplicate |= np.isin(new, self._seen)
        if duplicate.any():
            row = int(np.flatnonzero(duplicate)[0])
            raise DamagedAnswersError(
                path,
                f"row {row}: sample '{rows['sample_id'][row]}', repeat {repeat[row]} is a duplicate.",
            )
        self._ids = distinct
        self._seen = np.concatenate([self._seen, new])


def _encoded(strings: "pa.ChunkedArray[pa.StringScalar]") -> tuple[IntArray, "pa.Array[Any]"]:
    """Return a number for each string, and the distinct strings."""
    encoded: Any = strings.combine_chunks().dictionary_encode()  # not in the type stubs
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _read(answers: AnswerSet, shard: Shard) -> pa.Table:
    """Read all of a shard and return its keys."""
    reader = answers.shard(shard, GENERATION_SCHEMA.names)
    if unknown := sorted(set(reader.names) - set(GENERATION_SCHEMA.names)):
        raise DamagedAnswersError(
            f"{answers.folder}/{shard.name}",
            f"it has the column '{unknown[0]}', which is not part of the format.",
        )
    batches, counted = [], []
    for batch in reader.batches():
        batches.append(batch.select(list(KEYS)))
        counted.append(batch.select(list(COLUMNS)))
    if shard.session is not None:
        counts = count_rows(counted)
        wrong = [name for name, count in counts.items() if getattr(shard, name) != count]
        if wrong:
            raise DamagedAnswersError(
                f"{answers.folder}/{shard.name}",
                f"the manifest says {wrong[0]} {getattr(shard, wrong[0])}, its rows give {counts[wrong[0]]}.",
            )
    return pa.Table.from_batches(batches, pa.schema([GENERATION_SCHEMA.field(k) for k in KEYS]))


def _state_problem(manifest: Manifest) -> str | None:
    if manifest.state != state_of(manifest.expected, manifest.shards):
        failed = f", {manifest.failed:,} of them failed" if manifest.failed else ""
        return f"its state is '{manifest.state}' with {manifest.rows:,} of {manifest.expected:,} rows{failed}."
    wrong = next((s for s in manifest.sessions if s != s.counted(manifest.shards)), None)
    if wrong is not None:
        return f"the counts of session '{wrong.id}' are not those of its shards."
    known = {session.id for session in manifest.sessions}
    unknown = next((s for s in manifest.shards if s.session not in (None, *known)), None)
    return f"shard '{unknown.name}' is of an unknown session." if unknown else None


def _strays(answers: AnswerSet) -> Iterator[Problem]:
    listed = {f"{answers.folder}/{shard.name}" for shard in answers.manifest.shards}
    listed.add(f"{answers.folder}/manifest.json")
    for path in sorted(answers.repository.files(answers.revision, answers.folder)):
        if path not in listed:
            yield Problem(path, "the manifest does not list it, so it is never scored.")


def _label_problems(answers: AnswerSet) -> Iterator[Problem]:
    """Yield the problems of people's labels: tables that are missing or changed, and files that are none."""
    files = answers.repository.files(answers.revision, labels_folder(answers))
    for path, file in sorted(files.items()):
        stem, _, suffix = path.rpartition(".")
        if suffix == "json":
            try:
                read_labels(answers, file)
            except DamagedAnswersError as error:
                yield Problem(error.path, error.problem)
        elif suffix != "parquet" or f"{stem}.json" not in files:
            yield Problem(path, "it is not the file of labels.")


def _orphans(repository: Repository, revision: str) -> Iterator[Problem]:
    def folders(files: Mapping[str, StoredFile]) -> dict[PurePosixPath, str]:
        return {PurePosixPath(*PurePosixPath(path).parts[1:-1]): path for path in sorted(files)}

    answers = repository.files(revision, "answers")
    with_manifest = folders(
        {path: file for path, file in answers.items() if path.endswith("/manifest.json")}
    )
    others = (repository.files(revision, folder) for folder in ("scores", LABELS))
    for files in (answers, *others):
        for folder, path in folders(files).items():
            if folder not in with_manifest:
                yield Problem(path, "its answer set has no manifest.")


def _alias_problems(repository: Repository, revision: str) -> Iterator[Problem]:
    for path in sorted(repository.files(revision, FOLDER)):
        name = PurePosixPath(path).stem
        try:
            alias = read_alias(repository, revision, name)
            if alias is None or path != f"{FOLDER}/{name}.json":
                yield Problem(path, "it is not the file of an alias.")
            else:
                aliased_sets(repository, revision, alias)
        except DamagedAnswersError as error:
            yield Problem(error.path, error.problem)
