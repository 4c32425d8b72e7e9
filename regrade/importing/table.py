"""Reader of any table whose columns the user names: Parquet, JSON lines, or a JSON list (`.gz` too)."""

from regrade.errors import SettingsError
from regrade.importing.base import (
    Columns,
    ImportedRow,
    ImportedSet,
    OriginalScore,
    RowScore,
    TableOptions,
)
from regrade.importing.files import SourceFile, finite
from regrade.importing.record import Record, as_json, clean

SCORE = "score"
"""Name of the original score if no score column is named."""


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Read the answers of a table.

    Raises:
        SettingsError: If the column of the answers is not named.
        ImportFileError: If a column does not exist, or has a value of the wrong type.
    """
    columns = options.columns
    if columns.text is None:
        raise SettingsError(
            f"'{file.path}' is a table whose columns must be named: `--column.text NAME` for the answers, "
            f"and `--column.question`, `--column.target` and so on. Its columns: "
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
    """Answers in a row of a table; several if the column of the answers holds lists.

    Args:
        index: Number of the row, from 0.
        record: The row.
        options: Names of the columns.
        scoring: Name of the original score.
    """
    columns = options.columns
    answers = _answers(record, str(columns.text))
    prompt = _as_text(record, columns.prompt)
    question = _as_text(record, columns.question)
    target = _as_text(record, columns.target)
    if target is not None and options.target_after is not None:
        target = target.rpartition(options.target_after)[2].strip()
    scores = {}
    if columns.score is not None:
        score = record.need(columns.score)
        value = finite(score)
        if value is None and score is not None:
            raise record.error(
                f"'{columns.score}' should be true, false or a number, found {score!r:.60}."
            )
        scores[scoring] = RowScore(value, _as_text(record, columns.extracted))
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
            # A score of several answers together is not a score of each.
            scores=scores if len(answers) == 1 else {},
        )
        for repeat, text in enumerate(answers)
    ]


def _answers(record: Record, path: str) -> tuple[str | None, ...]:
    if not isinstance(record.need(path), list):
        return (record.text(path),)
    texts = record.texts(path)
    if not texts:
        raise record.error(f"'{path}' is an empty list; a text or a list of texts was expected.")
    return texts


def _choices(record: Record, columns: Columns) -> tuple[str, ...]:
    return (record.texts(columns.choices) or ()) if columns.choices is not None else ()


def _as_text(record: Record, path: str | None) -> str | None:
    """Convert a value to text: a number as Python prints it, lists, objects and truth values as JSON."""
    value = record.need(path) if path is not None else None
    if value is None or isinstance(value, str):
        return value and clean(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else as_json(value)
