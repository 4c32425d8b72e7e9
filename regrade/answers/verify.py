"""Verify an answer repository: checksums, row counts, duplicates, schema, manifests, scores."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from regrade.answers.aliases import FOLDER, aliased_sets, read_alias
from regrade.answers.base import Repository, StoredFile
from regrade.answers.documents import FileProblem, Verified
from regrade.answers.images import StoredImages
from regrade.answers.labelfile import FOLDER as LABELS
from regrade.answers.labelfile import read_labels
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import COLUMNS, Manifest, Shard, count_rows, state_of
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.records.columns import GENERATION_SCHEMA, KEYS
from regrade.records.specification import IMAGES, TOPS
from regrade.settings.errors import DamagedAnswersError
from regrade.stats.estimates import IntArray
from regrade.stats.metrics import summarise

# Verify the scorings of an answer set: their rows, and the metrics that follow from them.

_COUNTS = {"unfinished": "unfinished", "timeout": "timeouts"}
"""Fields of `Metrics` that a later version added, by the prefix of all fields about them."""
_BY_TURN = ("pass_at_stderr", "majority_stderr")
"""Errors for which earlier versions took the turns of a conversation for independent."""


def verify_scores(answers: AnswerSet, intact: AnswerSet, verified: Verified) -> None:
    """Add the problems of all scorings of an answer set.

    Args:
        answers: The answer set.
        intact: The same, reduced to its intact shards.
        verified: Receives counts and problems.
    """
    files = answers.repository.files(answers.revision, answers.scores_folder)
    for path, file in sorted(files.items()):
        stem, _, suffix = path.rpartition(".")
        if suffix == "json":
            verified.scorings += 1
            try:
                record = answers.score_file(file)
                problems = list(_score_problems(answers, intact, record))
            except DamagedAnswersError as error:
                problems = [FileProblem(path, error.problem)]
            verified.problems += problems
        elif suffix != "parquet":
            verified.problems.append(FileProblem(path, "it is not the file of a scoring."))
        elif f"{stem}.json" not in files:
            verified.problems.append(FileProblem(path, "the scoring has no JSON file."))


def _differences(
    recorded: object, computed: object, where: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Yield the places in which two summaries differ, with both values; floats to 9 digits after the point."""
    pairs: Iterable[tuple[object, object, object]] = ()
    if isinstance(recorded, Mapping) and isinstance(computed, Mapping):
        names = dict.fromkeys([*recorded, *computed])
        later = [  # counts that scorings of earlier versions do not have
            prefix for prefix, field in _COUNTS.items() if recorded.get(field, 0) is None
        ]
        low, high = recorded.get("accuracy_low"), recorded.get("accuracy_high")
        if low is not None and high is not None and high - low < 1e-9:
            later += ["accuracy_low", "accuracy_high"]  # earlier versions had ends without a width
        pairs = (
            (name, recorded.get(name), computed.get(name))
            for name in names
            if not str(name).startswith(tuple(later))
        )
    elif (
        isinstance(recorded, Sequence)
        and isinstance(computed, Sequence)
        and not isinstance(recorded, str)
        and len(recorded) == len(computed)
    ):
        pairs = zip(range(len(recorded)), recorded, computed, strict=True)
    elif isinstance(recorded, float) and isinstance(computed, float):
        if not math.isclose(recorded, computed, rel_tol=0, abs_tol=1e-9):
            yield where, recorded, computed
        return
    elif recorded != computed:
        yield where, recorded, computed
    for name, stored, given in pairs:
        yield from _differences(stored, given, f"{where}.{name}" if where else str(name))


def _score_problems(
    answers: AnswerSet, intact: AnswerSet, record: ScoreFile
) -> Iterator[FileProblem]:
    stem = f"{answers.scores_folder}/{record.label}"
    try:
        table = answers.score_table(record)
    except DamagedAnswersError as error:
        yield FileProblem(f"{stem}.parquet", error.problem)
        return
    known = {shard.sha256 for shard in answers.manifest.shards}
    if unknown := set(record.answers) - known - set(answers.manifest.replaced):
        yield FileProblem(
            f"{stem}.json", f"the scored shard {min(unknown)[:8]} is not in the manifest."
        )
        return
    if not known.issuperset(record.answers):
        return  # the rows that were scored are only at older revisions
    scored = answers.only(record.answers)
    votes = record.summary.majority_samples is not None
    passes = votes or bool(record.summary.pass_at)
    computed = summarise(
        table, answers.manifest.groups, votes=votes, passes=passes, scale=record.scale
    ).model_dump()
    recorded = record.summary.model_dump()
    if record.summary.samples is None:  # stored before all metrics were defined as they are now
        names = ("n", "unparsed", "accuracy")
        recorded, computed = (
            {name: summary["overall"][name] for name in names} for summary in (recorded, computed)
        )
    elif answers.manifest.specification.benchmark.converses:
        for name in _BY_TURN:
            computed[name] = recorded[name]
    difference = next(_differences(recorded, computed), None)
    if difference is not None:
        where, stored, given = difference
        yield FileProblem(f"{stem}.json", f"its {where} is {stored}, its rows give {given}.")
    if {s.sha256 for s in scored.manifest.shards} <= {s.sha256 for s in intact.manifest.shards}:
        keys = table.select(list(KEYS))
        if not pa.Table.from_batches(scored.batches(KEYS), keys.schema).equals(keys):
            yield FileProblem(f"{stem}.parquet", "its rows do not match the scored answers.")


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
    sets, damaged = readable_sets(repository, revision, answer_set_id=answer_set_id, tops=TOPS)
    verified = Verified(answer_sets=len(sets) + len(damaged))
    verified.problems += [FileProblem(error.path, error.problem) for error in damaged]
    for answers in sets:
        last = ""
        for shard in answers.manifest.shards:
            in_order = shard.name[5:10] > last or answers.manifest.replaced
            last = shard.name[5:10]
            if not in_order or shard.name[11:19] != shard.sha256[:8]:
                path = f"{answers.folder}/{shard.name}"
                verified.problems.append(
                    FileProblem(path, "its name does not match its number and sha256.")
                )
        intact, problems = intact_part(answers)
        verified.shards += len(answers.manifest.shards)
        verified.rows += intact.manifest.rows
        verified.damaged_shards += len(problems)
        verified.problems += problems
        if not problems and (wrong := _state_problem(answers.manifest)):
            verified.problems.append(FileProblem(f"{answers.folder}/manifest.json", wrong))
        verified.problems += _strays(answers)
        verify_scores(answers, intact, verified)
        verified.problems += _label_problems(answers)
    verified.problems += _image_problems(repository, revision, sets, everything=not answer_set_id)
    if isinstance(repository, LocalRepository) and revision == repository.head():
        verified.problems += _on_disk(
            repository, [answers.folder for answers in sets] if answer_set_id else None
        )
    if answer_set_id is None:
        verified.problems += _orphans(repository, revision)
        verified.problems += _alias_problems(repository, revision)
    return verified


def _on_disk(repository: LocalRepository, folders: Sequence[str] | None) -> Iterator[FileProblem]:
    """Yield the files of a folder that are not as its newest commit says; only those in `folders`, if given."""
    try:
        for path, problem in repository.differences(copies=folders is None):
            if folders is None or path.startswith(tuple(f"{folder}/" for folder in folders)):
                yield FileProblem(path, problem)
    except DamagedAnswersError as error:
        yield FileProblem(error.path, error.problem)


def intact_part(answers: AnswerSet) -> tuple[AnswerSet, list[FileProblem]]:
    """Return the answer set reduced to its intact shards, and the problems of the others.

    Every column is read. A shard that repeats a row of an earlier shard is not intact.
    """
    read: list[Shard] = []
    keys: list[pa.Table] = []
    wrong: dict[str, str] = {}
    for shard in answers.manifest.shards:
        try:
            keys.append(_read(answers, shard))
            read.append(shard)
        except DamagedAnswersError as error:
            wrong[shard.name] = error.problem
    if read:
        wrong |= {s.name: why for s, why in _wrong(answers.manifest, read, pa.concat_tables(keys))}
    intact = [shard for shard in answers.manifest.shards if shard.name not in wrong]
    problems = [
        FileProblem(f"{answers.folder}/{shard.name}", wrong[shard.name])
        for shard in answers.manifest.shards
        if shard.name in wrong
    ]
    return answers.only([s.sha256 for s in intact]) if problems else answers, problems


def check_rows(answers: AnswerSet, rows: pa.Table) -> None:
    """Refuse duplicate and impossible combinations of sample and repeat.

    Args:
        answers: Answer set.
        rows: Columns `sample_id` and `repeat` of all shards in order.

    Raises:
        DamagedAnswersError: If there are any; it names the shard.
    """
    for shard, wrong in _wrong(answers.manifest, answers.manifest.shards, rows):
        raise DamagedAnswersError(f"{answers.folder}/{shard.name}", wrong)


def _wrong(
    manifest: Manifest, shards: Sequence[Shard], rows: pa.Table
) -> Iterator[tuple[Shard, str]]:
    """Yield the shards with duplicate or impossible combinations of sample and repeat; their rows count as not there.

    Args:
        manifest: The answer set's.
        shards: Its shards that were read.
        rows: Columns `sample_id` and `repeat` of these, in order.
    """
    if not rows.num_rows:
        return
    repeats = min(manifest.specification.repeats, 2**31)  # the column has 32 bits
    repeat = rows["repeat"].to_numpy().astype(np.int64)
    sample, names = _encoded(rows["sample_id"])
    keys, key = np.unique(sample * repeats + repeat, return_inverse=True)
    has_key, has_sample = np.zeros(len(keys), np.bool_), np.zeros(len(names), np.bool_)
    start = samples = 0
    for shard in shards:
        part = slice(start, start + shard.rows)
        start += shard.rows
        outside = (repeat[part] < 0) | (repeat[part] >= repeats)
        new = np.unique(sample[part])
        new = new[~has_sample[new]]
        duplicate = np.ones(shard.rows, np.bool_)
        duplicate[np.unique(key[part], return_index=True)[1]] = False
        duplicate |= has_key[key[part]]
        if outside.any():
            yield (shard, f"it has repeat {repeat[part][outside][0]}, expected 0 to {repeats - 1}.")
        elif samples + len(new) > manifest.n_samples:
            yield (
                shard,
                f"with it the answer set has more than the {manifest.n_samples:,} samples of the manifest.",
            )
        elif duplicate.any():
            row = int(np.flatnonzero(duplicate)[0])
            name, number = names[int(sample[part][row])], repeat[part][row]
            yield shard, f"row {row}: sample '{name}', repeat {number} is a duplicate."
        else:
            has_sample[new] = True
            has_key[key[part]] = True
            samples += len(new)


def _encoded(strings: "pa.ChunkedArray[Any]") -> tuple[IntArray, "pa.Array[Any]"]:
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


def _strays(answers: AnswerSet) -> Iterator[FileProblem]:
    listed = {f"{answers.folder}/{shard.name}" for shard in answers.manifest.shards}
    listed.add(f"{answers.folder}/manifest.json")
    for path in sorted(answers.repository.files(answers.revision, answers.folder)):
        if path not in listed:
            yield FileProblem(path, "the manifest does not list it, so it is never scored.")


def _label_problems(answers: AnswerSet) -> Iterator[FileProblem]:
    """Yield the problems of people's labels: tables that are missing or changed, and files that are none."""
    files = answers.repository.files(answers.revision, answers.labels_folder)
    for path, file in sorted(files.items()):
        stem, _, suffix = path.rpartition(".")
        if suffix == "json":
            try:
                read_labels(answers, file)
            except DamagedAnswersError as error:
                yield FileProblem(error.path, error.problem)
        elif suffix != "parquet" or f"{stem}.json" not in files:
            yield FileProblem(path, "it is not the file of labels.")


def _image_problems(
    repository: Repository, revision: str, sets: Sequence[AnswerSet], *, everything: bool
) -> Iterator[FileProblem]:
    """Yield the problems of images, and the answer sets whose images are not stored although they should be.

    Args:
        repository: Repository to check.
        revision: 40-digit revision.
        sets: Answer sets to check.
        everything: Check the images of all benchmarks, not only those of the sets.
    """
    known = {images.folder: images for images in (answers.images for answers in sets)}
    found = {path.split("/")[1] for path in repository.files(revision, IMAGES)}
    if everything:
        for name in found:
            images = StoredImages(repository, revision, name)
            known.setdefault(images.folder, images)
    for folder in sorted(known):
        yield from known[folder].problems()
    for answers in sets:
        if answers.manifest.images != "stored":
            continue
        images = known[answers.images.folder]
        shown: set[str] = set()
        with suppress(DamagedAnswersError):  # named by the other checks
            for batch in answers.batches(["images"]):
                shown.update(map(str, pc.list_flatten(batch["images"]).to_pylist()))
            if lacking := sorted(sha256 for sha256 in shown if sha256 not in images):
                yield FileProblem(
                    f"{answers.folder}/manifest.json",
                    f"it says that its images are stored, but '{images.folder}' lacks {len(lacking):,} of {len(shown):,}, "
                    f"such as '{lacking[0][:8]}'.",
                )


def _orphans(repository: Repository, revision: str) -> Iterator[FileProblem]:
    def folders(files: Mapping[str, StoredFile]) -> dict[PurePosixPath, str]:
        return {PurePosixPath(*PurePosixPath(path).parts[1:-1]): path for path in sorted(files)}

    answers = {p: file for top in TOPS for p, file in repository.files(revision, top).items()}
    with_manifest = folders(
        {path: file for path, file in answers.items() if path.endswith("/manifest.json")}
    )
    others = (repository.files(revision, folder) for folder in ("scores", LABELS))
    for files in (answers, *others):
        for folder, path in folders(files).items():
            if folder not in with_manifest:
                yield FileProblem(path, "its answer set has no manifest.")


def _alias_problems(repository: Repository, revision: str) -> Iterator[FileProblem]:
    for path in sorted(repository.files(revision, FOLDER)):
        name = PurePosixPath(path).stem
        try:
            alias = read_alias(repository, revision, name)
            if alias is None or path != f"{FOLDER}/{name}.json":
                yield FileProblem(path, "it is not the file of an alias.")
            else:
                aliased_sets(repository, revision, alias)
        except DamagedAnswersError as error:
            yield FileProblem(error.path, error.problem)
