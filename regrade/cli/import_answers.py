"""`regrade import`."""

import shlex
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from regrade.answers.opening import open_repository
from regrade.cli.command_list import command
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import print_blocks, stderr, stdout
from regrade.exchange.importing.base import Columns, FormatName, TableOptions
from regrade.exchange.importing.building import Names
from regrade.exchange.importing.importer import Imported, Imports, import_files
from regrade.scorers import load_scorer, stored_name
from regrade.settings.errors import OperationError, of_setting
from regrade.settings.view_address import default_answers
from regrade.stats.scale import percent
from regrade.text.blocks import Table
from regrade.text.text import visible

COLUMNS = Group("Columns of a table", sort_key=7)
SHOWN_FIELDS = 20
"""Most fields of a format that are named on the terminal; `--json` has all."""


@command(group="Get answers", name="import", noun="answers")
def import_answers(
    paths: tuple[str, ...],
    /,
    *,
    format: Literal["auto", FormatName] = "auto",  # noqa: A002 - the option's name
    answers: Answers = None,
    model: str | None = None,
    benchmark: str | None = None,
    scorer: str | None = None,
    column: Annotated[Columns | None, Parameter(name="--column", group=COLUMNS)] = None,
    target_after: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    score_range: tuple[float, float] | None = None,
    strict: bool = False,
    output: Output = TABLE,
) -> None:
    """Import answers that other tools generated.

    Scores in the files are imported, too, as scores of the original tool. A file that cannot be read is named, and the
    others are imported; the exit code is then 1.

    Args:
        paths: Files, folders, or datasets on the Hub (`hf://datasets/ORG/NAME`, with `@REVISION` if it should not be the newest);
            files of unknown format in a folder or dataset are skipped.
        format: Format of the files; `auto` detects it for each file.
        model: Name of the model, instead of the name in the file.
        benchmark: Name of the benchmark, instead of the name in the file.
        scorer: Scorer of regrade for these answers; chosen by the format of the targets if not given.
        target_after: Text before the right answer in the target column, such as `####`; its last occurrence counts.
        score_range: Worst and best value of the table's score, or of the reward of agents, such as `0 1.2`; 0 and 1 if not given.
        strict: Import nothing if a file cannot be read, or a folder has a JSON, Parquet or zip file of unknown format.

    Examples:
        import results/ --answers ./answers
        import lm_eval_output/ --format lm-eval --scorer number --strict --json
    """
    if scorer is not None:
        with of_setting("`--scorer`"):
            load_scorer(scorer)  # a name that is not known is refused before any file is read
    repository = open_repository(answers or default_answers(), create=True)
    imports = import_files(
        repository,
        paths,
        format_name=None if format == "auto" else format,
        table=TableOptions(column or Columns(), target_after, score_range),
        names=Names(model, benchmark, None if scorer is None else stored_name(scorer)),
        strict=strict,
    )
    if imports.sets:
        # Only this needs Prefect, whose import takes a second.
        from regrade.orchestration.events import answers_published  # noqa: PLC0415

        answers_published([imported.answers for imported in imports.sets])
    show_imports(imports, repository.uri, output)


def show_imports(imports: Imports, uri: str, output: Output) -> None:
    """Print what was imported into a repository.

    Raises:
        PartlyImportedError: If some files were not.
    """
    document = {
        "repository": uri,
        "revision": imports.revision,
        "answer_sets": [_document(imported) for imported in imports.sets],
        "skipped": list(imports.skipped),
        "failed": [str(error) for error in imports.failed],
        "fields_not_imported": imports.not_imported,
    }
    spent = imports.time_spent
    if spent is not None:
        document["time_spent"] = spent.model_dump(mode="json")

    def draw() -> None:
        _print(imports, uri)
        if spent is not None:
            print_blocks(list(spent.blocks()))

    output.show(document, draw)
    for error in imports.failed:
        _note(f"not imported: {error}")
    if imports.failed:
        raise PartlyImportedError(len(imports.failed))


class PartlyImportedError(OperationError):
    """Some of the files were not imported; `files` is their number."""

    def __init__(self, files: int) -> None:
        self.files = files
        super().__init__(files)

    def __str__(self) -> str:
        were = "1 file was" if self.files == 1 else f"{self.files} files were"
        return f"{were} not imported; the others were."


def _document(imported: Imported) -> dict[str, object]:
    manifest = imported.answers.manifest
    return {
        "path": imported.place,
        "format": imported.format,
        "answer_set_id": manifest.answer_set_id,
        "model": manifest.specification.model.name,
        "benchmark": manifest.specification.benchmark.name,
        "rows": manifest.rows,
        "expected_rows": manifest.expected,
        "is_new": imported.is_new,
        "without_target": imported.without_target,
        "scorers": list(manifest.scorers),
        "originals": [
            {
                **(file.original.model_dump() if file.original else {}),
                "accuracy": file.summary.overall.accuracy,
                "n": file.summary.overall.n,
            }
            for file in imported.originals
        ],
    }


def _print(imports: Imports, uri: str) -> None:
    columns = ("answer set", "model", "benchmark", "format", "rows", "original's score")
    rows = list(map(_row, imports.sets))
    print_blocks([Table(columns, rows, columns, headings=columns[1:3], lists=columns[-1:])])
    stdout.print(f"{visible(uri)} at {imports.revision}")
    if stored := [i.answers.manifest.answer_set_id for i in imports.sets if not i.is_new]:
        _note(f"imported before, answers unchanged: {_listed(stored)}")
    for name, in_file in imports.benchmarks.items():
        if name != in_file:
            _note(f"named {name} here: the benchmark {in_file}")
    for place in imports.skipped:
        _note(f"skipped, unknown format: {place}")
    for imported in imports.sets:
        if imported.without_target:
            _note(_without_target(imported))
    if imports.not_imported:
        fields = (f"{name}: {_listed(names)}" for name, names in imports.not_imported.items())
        _note(f"fields not imported: {'; '.join(fields)}")
    _note(f"score them           regrade score --answers {shlex.quote(uri)}")


def _without_target(imported: Imported) -> str:
    example = ""
    if imported.unusable:
        row = imported.unusable[0]
        example = f", such as {row.target!r:.60} of question {row.index}"
    elif imported.format == "table" and imported.without_target == imported.answers.manifest.rows:
        example = ": name their column with `--column.target`"
    return (
        f"without a usable target: {imported.without_target} of {imported.answers.manifest.rows} answers in "
        f"{imported.place}{example}"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_FIELDS} more" if len(names) > SHOWN_FIELDS else ""
    return ", ".join(names[:SHOWN_FIELDS]) + more


def _note(text: str) -> None:
    stderr.print(visible(text), soft_wrap=True)


def _row(imported: Imported) -> tuple[str, ...]:
    manifest = imported.answers.manifest
    incomplete = (
        f" of {manifest.expected:,}: incomplete" if manifest.rows < manifest.expected else ""
    )
    scores = (
        f"{percent(file.summary.overall.accuracy)} (n={file.summary.overall.n:,}) "
        f"{file.original.title if file.original else ''}"
        for file in imported.originals
    )
    return (
        manifest.answer_set_id,
        manifest.specification.model.name,
        manifest.specification.benchmark.name,
        imported.format,
        f"{manifest.rows:,}{incomplete}",
        "; ".join(scores) or "none in the file",
    )
