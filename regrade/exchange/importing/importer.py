"""Import files of other tools as answer sets; importing a file again changes nothing."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Final, cast, get_args

import pyarrow as pa

from regrade.answers.base import Repository
from regrade.answers.images import image_tables
from regrade.answers.opening import open_repository
from regrade.answers.parquet import SealedFile, seal_table, write_parquet
from regrade.answers.publishing import SetFiles, publish_files, publish_scores
from regrade.answers.rows import RowKey, row_keys
from regrade.answers.scorefile import ORIGINAL, OriginalScoring, ScoreFile
from regrade.answers.sets import AnswerSet, manifest_paths
from regrade.exchange.importing import harbor, swe_bench, terminal_bench
from regrade.exchange.importing.base import (
    FormatName,
    ImportedRow,
    OriginalScore,
    Reader,
    TableOptions,
)
from regrade.exchange.importing.building import Built, Names, build
from regrade.exchange.importing.files import READ_BESIDE, ImportFileError, SourceFile
from regrade.exchange.importing.originals import source_hash
from regrade.exchange.importing.record import Json
from regrade.jobs.time_spent import TimeSpent
from regrade.records.characters import whole_characters
from regrade.scorers import load_scorer
from regrade.settings.errors import RepositoryError, SettingsError, UnknownNameError, UserError
from regrade.stats.metrics import summarise
from regrade.text.text import counted

logger = logging.getLogger("regrade")

# Files of a dataset on the Hub, such as the `*-results` of the LLM Engineer's Handbook.

SCHEME = "hf://"
_SUFFIXES = (
    *(".parquet", ".jsonl", ".json", ".jsonl.gz", ".json.gz", ".zip", ".eval"),
    *(".traj", "/prompt.txt", "/response.txt"),
)
"""Endings of the files that a format may have; no others are downloaded."""


def dataset_files(address: str, folder: Path) -> list[SourceFile]:
    """Download the files of a dataset that may hold answers.

    Args:
        address: `hf://datasets/ORG/NAME`, or `hf://datasets/ORG/NAME@REVISION`; the newest revision if none is given.
        folder: Empty folder for the files, under their paths in the dataset, because some formats need these.

    Raises:
        RepositoryError: If there is no such dataset, or it has no such files.
        HubError: If the Hub does not answer.
    """
    uri, _, asked = address.partition("@")
    repository = open_repository(uri, create=False)
    revision = repository.resolve(asked or "main")
    folder.mkdir(parents=True, exist_ok=True)
    for path in repository.files(revision):
        if not path.endswith(_SUFFIXES) or ".." in PurePosixPath(path).parts:
            continue
        local = folder / path
        local.parent.mkdir(parents=True, exist_ok=True)
        local.symlink_to(repository.fetch(path, revision).resolve())
    found = [
        SourceFile(path, dataset=repository.uri, within=folder)
        for path in _own_files(folder, links=True)
    ]
    if not found:
        raise RepositoryError(
            repository.uri, f"it has no files to import ({', '.join(_SUFFIXES)})."
        )
    return found


# Formats that can be imported, and their detection.

_FORMATS: Final[tuple[FormatName, ...]] = get_args(FormatName)
_BY_COLUMNS: Final[tuple[tuple[FormatName, frozenset[str]], ...]] = (
    ("lm-eval", frozenset({"doc_id", "doc", "resps"})),
    ("lighteval", frozenset({"doc", "model_response", "metric"})),
    ("lighteval", frozenset({"__doc__", "__model_response__", "__metric__"})),
    ("lighteval", frozenset({"full_prompt", "predictions", "metrics"})),
    ("zeroeval", frozenset({"session_id", "model_input", "output", "generator"})),
    ("mmlu-pro", frozenset({"question", "options", "pred", "generated_text"})),
    ("handbook", frozenset({"prompt", "answers"})),
    ("verifiers", frozenset({"prompt", "completion", "reward"})),
    ("verifiers", frozenset({"task", "traces", "ok"})),
    ("swe-bench", swe_bench.COLUMNS),
)
"""Columns by which a table's format is detected."""
_PARTS: Final[Mapping[FormatName, Callable[[SourceFile], bool]]] = {
    "harbor": harbor.is_part,
    "swe-bench": swe_bench.is_part,
}
"""Formats of which a file may belong to another one, with which it is imported."""
_TABLES = ("parquet", "jsonl", "zip")


def load_reader(name: FormatName) -> Reader:
    """Import the reader of a format.

    Raises:
        UnknownNameError: If the format does not exist.
    """
    if name not in _FORMATS:
        raise UnknownNameError("format", name, _FORMATS)
    module = "inspect_log" if name == "inspect" else name.replace("-", "_")
    return cast("Reader", import_module(f"regrade.exchange.importing.{module}").read)


def detect(file: SourceFile) -> FormatName | None:
    """Detect the format of a file by its content; None if it matches no format.

    Raises:
        ImportFileError: If the content does not match the file's extension.
    """
    if file.kind == "eval":
        return "inspect"
    if file.kind == "json":
        return _of_document(file.document)
    return _of_columns(file.columns) if file.kind in _TABLES else None


def _of_document(document: Json) -> FormatName | None:
    if isinstance(document, list):
        first = document[0] if document else None
        return _of_columns(tuple(first)) if isinstance(first, dict) else None
    if not isinstance(document, dict):
        return None
    if {"version", "status", "eval"} <= document.keys():
        return "inspect"
    if {"adapter_spec", "request_states"} <= document.keys():
        return "helm"
    if harbor.is_job(document):
        return "harbor"
    if terminal_bench.is_run(document):
        return "terminal-bench"
    if swe_bench.is_predictions(document) or swe_bench.is_report(document):
        return "swe-bench"
    first = document.get("0")
    return "opencompass" if isinstance(first, dict) and "prediction" in first else None


def _of_columns(columns: Sequence[str]) -> FormatName | None:
    return next((name for name, needed in _BY_COLUMNS if needed <= set(columns)), None)


_STORED_DIFFERENTLY = (
    "an earlier version of regrade imported it and read its targets or choices differently. The stored answers are kept; "
    "to import the file again, name another repository with `--answers`."
)


@dataclass(frozen=True, slots=True)
class Imported:
    """An answer set imported from a file."""

    place: str
    """Path of the file, or its address in a dataset on the Hub."""
    format: FormatName
    answers: AnswerSet
    originals: tuple[ScoreFile, ...]
    is_new: bool
    """False if the repository had the answer set before."""
    without_target: int
    """Answers whose target is null."""
    unusable: tuple[ImportedRow, ...]
    """Answers whose target in the file cannot be used."""


@dataclass(frozen=True, slots=True)
class Imports:
    """Result of an import."""

    sets: tuple[Imported, ...]
    revision: str
    """Commit that holds the answers and the original scores."""
    skipped: tuple[str, ...]
    """Files in the given folders and datasets whose format is unknown."""
    failed: tuple[UserError, ...] = ()
    """Reasons for which the other files were not imported."""
    not_imported: Mapping[FormatName, tuple[str, ...]] = field(default_factory=dict)
    """Fields of the files' rows that are not imported, by format."""
    benchmarks: Mapping[str, str] = field(default_factory=dict)
    """Names of the benchmarks in the files, by their names here."""
    time_spent: TimeSpent | None = None
    """Parts of the wall-clock of the run that made the files."""


@dataclass(slots=True)
class _Read:
    """Files that were read so far."""

    built: list[Built] = field(default_factory=list)
    skipped: list[SourceFile] = field(default_factory=list)
    failed: list[UserError] = field(default_factory=list)
    benchmarks: dict[str, str] = field(default_factory=dict)
    """Names of the benchmarks in the files, by their names here."""

    def add(self, sets: Sequence[Built]) -> None:
        """Add the answer sets of a file.

        Raises:
            ImportFileError: If two benchmarks would get the same name.
        """
        for entry in sets:
            name = entry.description.specification.benchmark.name
            first = self.benchmarks.setdefault(name, entry.benchmark)
            if first != entry.benchmark:
                raise entry.file.error(
                    f"the benchmarks '{first}' and '{entry.benchmark}' would both be named '{name}'. Import one of them apart, with "
                    "another name: `--benchmark NAME`."
                )
        self.built += sets

    def unknown(self) -> list[SourceFile]:
        """Return the skipped files, without those of which another file's reader has taken something."""
        taken = {
            entry.file.other(path).name
            for entry in self.built
            for path in (*entry.file.parts, *entry.file.consulted)
        }
        return [file for file in self.skipped if file.name not in taken]


def import_files(
    repository: Repository,
    places: Sequence[Path | str],
    *,
    format_name: FormatName | None = None,
    table: TableOptions | None = None,
    names: Names | None = None,
    strict: bool = False,
) -> Imports:
    """Import files: all answers in one commit, their original scores in a second one.

    A file that cannot be read is left out. Nothing is written if no file can be read.

    Args:
        repository: Answer repository to write to.
        places: Files, folders, or datasets on the Hub (`hf://datasets/ORG/NAME`). In a folder or dataset, files of unknown
            format are skipped.
        format_name: Format of all files. None: detected for each file.
        table: Names of a table's columns, and the scale of scores.
        names: Model, benchmark and scorer; they override the files'.
        strict: Write nothing if a file cannot be read, or a folder has one of unknown format whose ending a format may have.

    Raises:
        SettingsError: If there is nothing to import, or the model or benchmark is not known.
        ImportFileError: If the only file, or with `strict` any file, has an unknown format or cannot be read.
        UserError: If none of several files can be read.
        RepositoryError: If there is no such dataset.
        HubError: If the Hub fails.
    """
    options = table or TableOptions()
    if options.score_range is not None and not options.score_range[0] < options.score_range[1]:
        low, high = options.score_range
        raise SettingsError(
            f"`--score-range {low:g} {high:g}`: the worst value comes first, then the best one, which is larger."
        )
    if format_name is None and options.columns.text is not None:
        format_name = "table"
    with tempfile.TemporaryDirectory(prefix="regrade-import-") as downloads:
        files = _files(places, Path(downloads))
        read = _read(files, format_name, options, names or Names(), strict=strict)
        may_have_answers = (file for file in read.unknown() if file.name.endswith(_SUFFIXES))
        if strict and (unknown := next(may_have_answers, None)) is not None:
            raise _unknown_format(unknown)
        return _store(repository, read, places)


def _store(repository: Repository, read: _Read, places: Sequence[Path | str]) -> Imports:
    by_id = {entry.description.specification.answer_set_id: entry for entry in read.built}
    unique = list(by_id.values())
    if not unique:
        raise _nothing(places, read.failed)
    head = repository.head()
    before = {
        p.split("/")[3] for p in manifest_paths(repository.files(head, "answers") if head else ())
    }
    published = _publish(repository, unique)
    stored_sets: list[tuple[AnswerSet, Built]] = []
    for stored, entry, is_same in published:
        if is_same:
            stored_sets.append((stored, entry))
        else:
            read.failed.append(entry.file.error(_STORED_DIFFERENTLY))
    scorings = [
        (stored, _scoring(stored, entry, number, original, scores), scores)
        for stored, entry in stored_sets
        for number, (original, scores) in enumerate(entry.originals)
    ]
    known: set[tuple[str, str]] = set()
    for stored, _ in stored_sets:
        files, damaged = stored.readable_scores()
        known.update((stored.manifest.answer_set_id, file.label) for file in files)
        for error in damaged:
            logger.warning(
                "a scoring cannot be read; one that came with this file is written again: %s", error
            )
    new = [
        (stored, file, scores)
        for stored, file, scores in scorings
        if (stored.manifest.answer_set_id, file.label) not in known
    ]
    revision = publish_scores(repository, new) if new else published[0][0].revision
    return Imports(
        tuple(
            Imported(
                entry.file.name,
                entry.format,
                stored,
                tuple(file for scored, file, _ in scorings if scored is stored),
                stored.manifest.answer_set_id not in before,
                entry.table["target"].null_count,
                entry.unusable,
            )
            for stored, entry in stored_sets
        ),
        str(revision),
        tuple(file.name for file in read.unknown()),
        tuple(read.failed),
        _not_imported(unique),
        read.benchmarks,
    )


def _read(
    files: Iterable[tuple[SourceFile, bool]],
    format_name: FormatName | None,
    options: TableOptions,
    names: Names,
    *,
    strict: bool,
) -> _Read:
    if names.scorer is not None:
        load_scorer(names.scorer)  # the files are not the cause of an unknown name
    read = _Read()
    for file, several in files:
        try:
            format_ = format_name or detect(file)
            is_part = None if format_ is None else _PARTS.get(format_)
            if several and is_part is not None and is_part(file):
                continue
            if format_ is not None:
                read.add(_built(file, format_, options, names))
            elif several:
                read.skipped.append(file)
            else:
                raise _unknown_format(file)
        except UserError as error:
            if strict:
                raise
            read.failed.append(error)
    return read


def _built(
    file: SourceFile, format_name: FormatName, options: TableOptions, names: Names
) -> list[Built]:
    """Return the answer sets of a file.

    Raises:
        ImportFileError: If it cannot be read, or `names` would make one answer set of several.
    """
    try:
        found = load_reader(format_name)(file, options)
        sets = found if isinstance(found, list) else [found]
        built = [build(file, format_name, imported, names) for imported in sets]
    except RecursionError as error:  # also of JSON within a text, and of what was just parsed
        raise file.error("it has JSON that is nested too deeply.") from error
    if len({entry.description.specification.answer_set_id for entry in built}) < len(built):
        raise file.error(
            "it has answers of several models or benchmarks, which `--model` or `--benchmark` would make one. Leave that option out."
        )
    return built


def _nothing(places: Sequence[Path | str], failed: Sequence[UserError]) -> UserError:
    if len(failed) == 1:
        return failed[0]
    if failed:
        return UserError("\n".join(["None of the files can be imported.", *map(str, failed)]))
    named = ", ".join(f"'{place}'" for place in places) or "no file"
    return SettingsError(f"There is nothing to import in {named}. Formats: {', '.join(_FORMATS)}.")


def _unknown_format(file: SourceFile) -> ImportFileError:
    return file.error(
        "its format is not known. Name it with `--format`; or, for a table, name the columns: "
        "`--column.text NAME` for the answers, `--column.target`, `--column.question` and so on."
    )


def _not_imported(sets: Sequence[Built]) -> dict[FormatName, tuple[str, ...]]:
    """Names of the fields of rows that were not read, by format."""
    names: dict[FormatName, set[str]] = {}
    for entry in sets:
        names.setdefault(entry.format, set()).update(map(whole_characters, entry.file.unread))
    return {format_: tuple(sorted(fields)) for format_, fields in names.items() if fields}


def _files(places: Sequence[Path | str], downloads: Path) -> Iterator[tuple[SourceFile, bool]]:
    """Yield files, and whether each is one of several in a folder or dataset, which may also have files of other kinds."""
    for number, place in enumerate(places):
        if str(place).startswith(SCHEME):
            for file in dataset_files(str(place), downloads / str(number)):
                yield file, True
            continue
        path = Path(place)
        if not path.exists():
            raise SettingsError(
                f"'{path}' does not exist: a file, a folder or `hf://datasets/ORG/NAME` was expected."
            )
        if not path.is_dir():
            yield SourceFile(path), False
            continue
        yield from ((SourceFile(entry), True) for entry in _own_files(path))


_TRIAL_FOLDERS = {"result.json": ("agent", "verifier"), "results.json": ("agent-logs", "panes")}
"""Files with the result of a trial, and folders one of which lies beside it: what else is there belongs to the trial. Those of
the second name are in the results of their run, too."""
_OF_A_JOB = ("config.json", "lock.json", "job.log")
"""Settings beside a job's `result.json`, which has what is imported of them."""


_LOGS = "run_evaluation"
"""Folder in which SWE-bench logs the evaluation of each patch."""


def _own_files(folder: Path, *, links: bool = False) -> Iterator[Path]:
    """Yield the files below a folder that may be imported, in the order of their names.

    Args:
        folder: The folder.
        links: Files may be symbolic links, as in a download.
    """
    for name, beside in _TRIAL_FOLDERS.items():
        if (folder / name).is_file() and any((folder / other).is_dir() for other in beside):
            yield from [folder / name] if name == "result.json" else []
            return
    is_job = (folder / "result.json").is_file()
    for entry in sorted(folder.iterdir()):
        if (entry.is_symlink() and not links) or (is_job and entry.name in _OF_A_JOB):
            continue
        if entry.is_dir() and not entry.is_symlink() and entry.name != _LOGS:
            yield from _own_files(entry, links=links)
        elif entry.is_file() and not any(entry.match(name) for name in READ_BESIDE):
            yield entry


def _publish(repository: Repository, sets: Sequence[Built]) -> list[tuple[AnswerSet, Built, bool]]:
    """Publish answer sets; False for a set that is stored with other questions than those in its file."""
    message = f"Imported answers: {counted(len(sets), 'answer set')}"
    with tempfile.TemporaryDirectory(prefix="regrade-import-") as folder:
        ready = []
        for number, entry in enumerate(sets):
            files = []
            if entry.table.num_rows:
                files.append(seal_table(entry.table, Path(folder) / f"{number:05d}.parquet"))
            pictures = []
            for place, table in enumerate(image_tables(entry.images)):
                pictures.append(Path(folder) / f"{number:05d}-images-{place:05d}.parquet")
                write_parquet(table, pictures[-1])
            ready.append(SetFiles(entry.description, files, pictures))
        published = publish_files(repository, ready, message)
    return [
        (
            stored,
            entry,
            _is_stored(files.rows, stored) or set(row_keys(entry.table)) == _keys(stored),
        )
        for stored, entry, files in zip(published, sets, ready, strict=True)
    ]


def _keys(answers: AnswerSet) -> set[RowKey]:
    return {key for batch in answers.batches(["sample_id", "repeat"]) for key in row_keys(batch)}


def _is_stored(files: Sequence[SealedFile], answers: AnswerSet) -> bool:
    """True if the stored answers are those of these files, so that they need not be read again."""
    return {file.sha256 for file in files} == {shard.sha256 for shard in answers.manifest.shards}


def _scoring(
    answers: AnswerSet, built: Built, number: int, original: OriginalScore, scores: pa.Table
) -> ScoreFile:
    reported = original.reported
    if reported is not None and not 0 <= reported.value <= reported.out_of:
        reported = None  # on another scale, which is not known
    return ScoreFile(
        answer_set_id=answers.manifest.answer_set_id,
        scorer=ORIGINAL,
        version=1,
        source_hash=source_hash(built.file, number, original.name),
        answers_revision=answers.revision,
        answers=tuple(shard.sha256 for shard in answers.manifest.shards),
        summary=summarise(scores, answers.manifest.groups),
        # The main metric is the newest, and so the one that is shown first.
        scored_at=datetime.now(UTC) - timedelta(microseconds=number),
        score_seconds=0.0,
        original=OriginalScoring(
            tool=built.format,
            name=original.name,
            low=original.low,
            high=original.high,
            reported=reported.value if reported else None,
            reported_stderr=reported.stderr if reported else None,
            reported_n=reported.n if reported else None,
            reported_out_of=reported.out_of if reported else 1.0,
        ),
    )
