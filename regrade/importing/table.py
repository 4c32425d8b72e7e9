"""Any table with one answer a row, whose columns a person names: Parquet, JSON lines, or a JSON list (`.gz` too)."""

from regrade.errors import SettingsError
from regrade.importing.base import (
    Columns,
    Given,
    ImportedRow,
    ImportedSet,
    OriginalScore,
    TableOptions,
)
from regrade.importing.files import SourceFile, finite
from regrade.importing.record import Record, as_json, clean

SCORE = "score"
"""Name of the original's scoring where a table has one; the column's own name is in `recorded`."""


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Return the answers of a table.

    Raises:
        SettingsError: If no column with the answers is named.
        ImportFileError: If a column is not there, or holds something else than it should.
    """
    columns = options.columns
    if columns.text is None:
        raise SettingsError(
            f"'{file.path}' is a table that does not say what its columns are. Name them: `--column.text NAME` "
            f"for the answers, and `--column.question`, `--column.target` and so on. There are: "
            f"{', '.join(clean(name) for name in file.columns)}."
        )
    name = columns.score or SCORE
    rows = [
        row
        for index, record in enumerate(file.rows)
        for row in table_rows(index, record, options, name)
    ]
    recorded = {"columns": columns.model_dump(exclude_none=True)}
    if options.target_after is not None:
        recorded["target_after"] = {"text": options.target_after}
    scored = columns.score is not None
    return ImportedSet(
        rows,
        model=None,
        benchmark=None,
        recorded=recorded,
        originals=(OriginalScore(name),) * scored,
    )


def table_rows(
    index: int, record: Record, options: TableOptions, scoring: str
) -> list[ImportedRow]:
    """Return the answers in one row of a table: one, or several where the text is a list.

    Args:
        index: Number of the row.
        record: The row.
        options: Names of its columns.
        scoring: Name under which the original's score is kept.
    """
    columns = options.columns
    answers = _answers(record, str(columns.text))
    prompt = _as_text(record, columns.prompt)
    question = _as_text(record, columns.question)
    target = _as_text(record, columns.target)
    if target is not None and options.target_after is not None:
        target = target.rpartition(options.target_after)[2].strip()
    given = {}
    if columns.score is not None:
        score = record.need(columns.score)
        value = finite(score)
        if value is None and score is not None:
            raise record.error(
                f"'{columns.score}' should be true, false or a number, found {score!r:.60}."
            )
        given[scoring] = Given(value, _as_text(record, columns.extracted))
    return [
        ImportedRow(
            index=index,
            repeat=repeat,
            question=question or prompt or f"row {index}",
            target=target,
            choices=_choices(record, columns),
            subset=_as_text(record, columns.subset) or "",
            prompt=prompt,
            text=text,
            # One score for several answers says nothing of each.
            given=given if len(answers) == 1 else {},
        )
        for repeat, text in enumerate(answers)
    ]


def _answers(record: Record, path: str) -> tuple[str | None, ...]:
    found = record.need(path)
    if not isinstance(found, list):
        return (record.text(path),)
    texts = record.texts(path)
    if not texts:
        raise record.error(f"'{path}' is an empty list; a text or a list of texts was expected.")
    return texts


def _choices(record: Record, columns: Columns) -> tuple[str, ...]:
    return (record.texts(columns.choices) or ()) if columns.choices is not None else ()


def _as_text(record: Record, path: str | None) -> str | None:
    """Return a text or number as text; anything with structure as JSON."""
    found = record.need(path) if path is not None else None
    if found is None or isinstance(found, str):
        return found if found is None else clean(found)
    return (
        str(found)
        if isinstance(found, int | float) and not isinstance(found, bool)
        else as_json(found)
    )
