"""Import files of other tools as answer sets; importing a file again changes nothing."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from regrade.answers.base import Repository
from regrade.answers.publishing import publish_files, publish_scores
from regrade.answers.scorefile import ORIGINAL, OriginalScoring, ScoreFile
from regrade.answers.sealed import seal_table
from regrade.answers.sets import AnswerSet
from regrade.errors import SettingsError
from regrade.importing.base import FormatName, OriginalScore, TableOptions
from regrade.importing.building import Built, Names, build, source_hash
from regrade.importing.files import SourceFile
from regrade.importing.formats import detect, format_names, load_reader
from regrade.stats.metrics import summarise


@dataclass(frozen=True, slots=True)
class Imported:
    """An answer set imported from a file."""

    path: Path
    format: FormatName
    answers: AnswerSet
    originals: tuple[ScoreFile, ...]


@dataclass(frozen=True, slots=True)
class Imports:
    """Result of an import."""

    sets: tuple[Imported, ...]
    revision: str
    """Commit that holds the answers and the original scores."""
    skipped: tuple[Path, ...]
    """Files in the given folders whose format is unknown."""


def import_files(
    repository: Repository,
    paths: Sequence[Path],
    *,
    format_name: FormatName | None = None,
    table: TableOptions | None = None,
    names: Names | None = None,
) -> Imports:
    """Import files: all answers in one commit, their original scores in a second one.

    Nothing is written unless every file can be read.

    Args:
        repository: Answer repository to write to.
        paths: Files, or folders; in a folder, files of unknown format are skipped.
        format_name: Format of all files. None: detected for each file.
        table: Names of a table's columns.
        names: Model, benchmark and scorer; they override the files'.

    Raises:
        SettingsError: If there is nothing to import, or the model or benchmark is not known.
        ImportFileError: If a file has an unknown format or cannot be read.
        HubError: If the repository fails.
    """
    options = table or TableOptions()
    if format_name is None and options.columns.text is not None:
        format_name = "table"
    chosen, skipped = _chosen(paths, format_name)
    built = [
        build(file, format_, load_reader(format_)(file, options), names or Names())
        for file, format_ in chosen
    ]
    by_id = {entry.description.specification.answer_set_id: entry for entry in built}
    unique = list(by_id.values())
    if not unique:
        places = ", ".join(f"'{path}'" for path in paths) or "no file"
        raise SettingsError(
            f"There is nothing to import in {places}. Formats: {', '.join(format_names())}."
        )
    answers = _publish(repository, unique)
    scorings = [
        (stored, *_scoring(stored, entry, number, original, scores))
        for stored, entry in zip(answers, unique, strict=True)
        for number, (original, scores) in enumerate(entry.originals)
    ]
    known = {
        (stored.manifest.answer_set_id, file.label)
        for stored in answers
        for file in stored.readable_scores()
    }
    new = [
        (stored, file, scores)
        for stored, file, scores in scorings
        if (stored.manifest.answer_set_id, file.label) not in known
    ]
    revision = publish_scores(repository, new) if new else answers[0].revision
    return Imports(
        tuple(
            Imported(
                entry.file.path,
                entry.format,
                stored,
                tuple(file for scored, file, _ in scorings if scored is stored),
            )
            for stored, entry in zip(answers, unique, strict=True)
        ),
        str(revision),
        tuple(skipped),
    )


def _chosen(
    paths: Sequence[Path], format_name: FormatName | None
) -> tuple[list[tuple[SourceFile, FormatName]], list[Path]]:
    """Files to read with their formats, and files in folders whose format is unknown."""
    chosen: list[tuple[SourceFile, FormatName]] = []
    skipped: list[Path] = []
    for path in paths:
        for file in _files(path):
            detected = format_name or detect(file)
            if detected is not None:
                chosen.append((file, detected))
            elif path.is_dir():
                skipped.append(file.path)
            else:
                raise file.error(
                    "its format is not known. Name it with `--format`; or, for a table, name the columns: "
                    "`--column.text NAME` for the answers, `--column.target`, `--column.question` and so on."
                )
    return chosen, skipped


def _files(path: Path) -> Iterable[SourceFile]:
    if not path.exists():
        raise SettingsError(f"'{path}' does not exist: a file or folder was expected.")
    if not path.is_dir():
        return [SourceFile(path)]
    # Readers take `results_*.json` from the folder of the samples.
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and not file.is_symlink())
    return [SourceFile(file) for file in files if not file.match("results_*.json")]


def _publish(repository: Repository, sets: Sequence[Built]) -> list[AnswerSet]:
    message = f"Imported answers: {len(sets)} answer sets"
    with tempfile.TemporaryDirectory(prefix="regrade-import-") as folder:
        ready = []
        for number, entry in enumerate(sets):
            files = []
            if entry.table.num_rows:
                files.append(seal_table(entry.table, Path(folder) / f"{number:05d}.parquet"))
            ready.append((entry.description, files))
        return publish_files(repository, ready, message)


def _scoring(
    answers: AnswerSet, built: Built, number: int, original: OriginalScore, scores: pa.Table
) -> tuple[ScoreFile, pa.Table]:
    reported = original.reported
    file = ScoreFile(
        answer_set_id=answers.manifest.answer_set_id,
        scorer=ORIGINAL,
        version=1,
        source_hash=source_hash(built.file, number, original.name),
        answers_revision=answers.revision,
        answers=tuple(shard.sha256 for shard in answers.manifest.shards),
        summary=summarise(scores, answers.manifest.groups),
        scored_at=datetime.now(UTC),
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
    return file, scores
