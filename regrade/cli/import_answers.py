"""`regrade import`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from regrade.answers.opening import open_repository
from regrade.cli.options import Answers, Json
from regrade.cli.output import new_table, print_json
from regrade.cli.terminal import plain, stderr, stdout
from regrade.importing.base import Columns, FormatName, TableOptions
from regrade.importing.building import Names
from regrade.importing.importer import Imported, Imports, import_files
from regrade.job import default_answers
from regrade.reporting.tables import percent
from regrade.settings import ScorerName

TABLE = Group("A table that does not describe itself", sort_key=7)


def import_answers(
    paths: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)],
    /,
    *,
    format: Annotated[  # noqa: A002 - the option's name
        FormatName | Literal["auto"],
        Parameter(help="Format of the files; `auto`: told by what is in each."),
    ] = "auto",
    answers: Answers = None,
    model: str | None = None,
    benchmark: str | None = None,
    scorer: ScorerName | None = None,
    column: Annotated[Columns | None, Parameter(name="--column", group=TABLE)] = None,
    target_after: Annotated[
        str | None,
        Parameter(
            group=TABLE,
            help="The right answer is what follows the last of these in the target column, such as `####`.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make answer sets of answers that other tools made, with the original's own scores beside them.

    Args:
        paths: Files, or folders of which everything is taken that is of a known format.
        format: Format of the files.
        answers: Answer repository.
        model: Name of the model, where the file does not say it, or over what it says.
        benchmark: Name of the benchmark, where the file does not say it, or over what it says.
        scorer: Our scorer of these answers; the one that fits the targets if not given.
        column: Names of the table's columns.
        target_after: What the target follows in its column.
        json: Print JSON.
    """
    repository = open_repository(answers or default_answers(), create=True)
    imports = import_files(
        repository,
        paths,
        format_name=None if format == "auto" else format,
        table=TableOptions(column or Columns(), target_after),
        names=Names(model, benchmark, scorer),
    )
    if imports.sets:
        # Prefect takes a second to import, and is needed only here.
        from regrade.orchestration.events import answers_published  # noqa: PLC0415

        answers_published([one.answers for one in imports.sets])
    if json:
        print_json(
            {
                "repository": repository.uri,
                "revision": imports.revision,
                "answer_sets": [_document(one) for one in imports.sets],
                "skipped": [str(path) for path in imports.skipped],
            }
        )
        return
    _print(imports, repository.uri)


def _document(one: Imported) -> dict[str, object]:
    manifest = one.answers.manifest
    return {
        "path": str(one.path),
        "format": one.format,
        "answer_set_id": manifest.answer_set_id,
        "model": manifest.specification.model.name,
        "benchmark": manifest.specification.benchmark.name,
        "rows": manifest.rows,
        "expected_rows": manifest.n_samples * manifest.specification.repeats,
        "scorers": list(manifest.scorers),
        "originals": [
            {
                **(file.original.model_dump() if file.original else {}),
                "accuracy": file.summary.overall.accuracy,
                "n": file.summary.overall.n,
            }
            for file in one.originals
        ],
    }


def _print(imports: Imports, uri: str) -> None:
    table = new_table("answer set", "model", "benchmark", "format", "rows", "original's score")
    for one in imports.sets:
        manifest = one.answers.manifest
        expected = manifest.n_samples * manifest.specification.repeats
        incomplete = f" of {expected}: incomplete" if manifest.rows < expected else ""
        table.add_row(
            manifest.answer_set_id,
            plain(manifest.specification.model.name),
            manifest.specification.benchmark.name,
            one.format,
            f"{manifest.rows}{incomplete}",
            "; ".join(
                f"{percent(file.summary.overall.accuracy)} (n={file.summary.overall.n}) "
                f"{plain(file.original.title) if file.original else ''}"
                for file in one.originals
            )
            or "none in the file",
        )
    stdout.print(table)
    stdout.print(f"{plain(uri)} at {imports.revision}")
    for path in imports.skipped:
        stderr.print(f"left out, of no known format: {plain(str(path))}", soft_wrap=True)
    stderr.print(
        f"grade them           regrade score --answers {uri}", markup=False, soft_wrap=True
    )
