"""Reader of any table whose columns the user names: Parquet, JSON lines, or a JSON list (`.gz` too)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import orjson
from pydantic import ValidationError

from regrade.benchmarks.ifeval import read_instructions
from regrade.benchmarks.livecodebench import contest_task
from regrade.benchmarks.questions.contest_tests import ContestTestsError
from regrade.benchmarks.questions.targets import RowError
from regrade.exchange.importing.base import (
    Columns,
    ImportedRow,
    ImportedSet,
    OriginalScore,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.record import Json, Record, as_json
from regrade.records.characters import whole_characters
from regrade.records.columns import json_text
from regrade.scorers.programs.task import doc_of
from regrade.settings.errors import SettingsError

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
            f"'{file.name}' is a table whose columns must be named: `--column.text NAME` for the answers, "
            f"and `--column.question`, `--column.target` and so on. Its columns: "
            f"{', '.join(whole_characters(name) for name in file.columns)}."
        )
    original = _original(columns, options.score_range or (0.0, 1.0))
    records = file.rows
    _check_named(file, records, options)
    rows = [
        row
        for index, record in enumerate(records)
        for row in table_rows(index, record, _of_row(record, options), original.name)
    ]
    for row in rows:
        for score in row.scores.values():
            if refusal := original.refusal(score.value):
                raise file.error(refusal, row.index)
    recorded = {"columns": columns.model_dump(exclude_none=True)}
    if options.target_after is not None:
        recorded["target_after"] = {"text": options.target_after}
    scored = columns.score is not None or columns.extracted is not None
    return ImportedSet(
        rows, model=None, benchmark=None, recorded=recorded, originals=(original,) * scored
    )


def _check_named(file: SourceFile, records: Sequence[Record], options: TableOptions) -> None:
    """Refuse what the user named and no row has: a column, except that of choices, or the text before a target. A row may lack it.

    Raises:
        ImportFileError: If there is such a name. The message names the option.
    """
    for name, path in options.columns:
        if name == "choices" or path is None:
            continue
        if all(record.peek(path) is None for record in records):
            records[0].need(path, f"--column.{name}")
    after, column = options.target_after, options.columns.target
    if after is None or column is None:
        return
    if not any(after in str(record.peek(column)) for record in records):
        raise file.error(
            f"`--target-after '{after}'`: no target in the column '{column}' has this text."
        )


def _of_row(record: Record, options: TableOptions) -> TableOptions:
    """Return the options without the columns that a row lacks; only its answer may not be missing."""
    lacking = {
        name: None
        for name, path in options.columns
        if name not in ("text", "choices") and path is not None and record.peek(path) is None
    }
    if not lacking:
        return options
    return replace(options, columns=options.columns.model_copy(update=lacking))


def _original(columns: Columns, ends: tuple[float, float]) -> OriginalScore:
    if columns.score is None and columns.extracted is not None:
        return OriginalScore(f"{columns.extracted} equals target", by_target=True)
    return OriginalScore(columns.score or SCORE, low=ends[0], high=ends[1])


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
    prompt, prompt_kind = _prompt(record, columns.prompt)
    question = _as_text(record, columns.question)
    target = _target(record, options)
    scores = _scores(record, columns, len(answers))
    return [
        ImportedRow(
            index=index,
            repeat=repeat,
            content=question or prompt or f"row {index}",
            question=question,
            target=target,
            choices=_choices(record, columns),
            subset=_as_text(record, columns.subset) or "",
            doc=_doc(record, columns.doc),
            prompt=prompt,
            prompt_kind=prompt_kind,
            text=text,
            scores={} if score is None else {scoring: score},
        )
        for repeat, (text, score) in enumerate(zip(answers, scores, strict=True))
    ]


def _prompt(record: Record, path: str | None) -> tuple[str | None, Literal["text", "messages"]]:
    """Return a prompt and its kind: a list of objects with `role` and `content` is a conversation."""
    found = None if path is None else record.need(path)
    if not isinstance(found, list) or not found or not all(map(_is_turn, found)):
        return _text(found), "text"
    turns = [{"role": turn["role"], "content": turn["content"]} for turn in found]
    return orjson.dumps(turns).decode(), "messages"


def _is_turn(turn: object) -> bool:
    texts = (turn.get("role"), turn.get("content")) if isinstance(turn, dict) else (None,)
    return all(isinstance(text, str) for text in texts)


def _answers(record: Record, path: str) -> tuple[str | None, ...]:
    if not isinstance(record.need(path), list):
        return (record.text(path),)
    texts = record.answers(path)
    if not texts:
        raise record.error(f"'{path}' is an empty list; a text or a list of texts was expected.")
    return texts


def _target(record: Record, options: TableOptions) -> str | int | float | None:
    """Target as in the file; a number stays a number, because with choices it is an index."""
    path = options.columns.target
    value = None if path is None else record.need(path)
    text = _text(value)
    if text is not None and options.target_after is not None:
        return text.rpartition(options.target_after)[2].strip()
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if text is not None and is_number else text


def _scores(record: Record, columns: Columns, n_answers: int) -> Sequence[RowScore | None]:
    """Score of each answer in a row; a score of several answers together is not a score of each."""
    extracted = None if columns.extracted is None else record.need(columns.extracted)
    if columns.score is not None:
        score = record.need(columns.score)
        value = finite(score)
        if value is None and _text(score) is not None:
            raise record.error(
                f"'{columns.score}' should be true, false or a number, found {score!r:.60}."
            )
        scores = [RowScore(value, _text(extracted))]
    elif columns.extracted is not None:
        each = extracted if isinstance(extracted, list) else [extracted]
        scores = [RowScore(None, _text(answer)) for answer in each]
    else:
        scores = []
    return scores if len(scores) == n_answers else [None] * n_answers


def _choices(record: Record, columns: Columns) -> tuple[str, ...]:
    return (record.texts(columns.choices) or ()) if columns.choices is not None else ()


def _doc(record: Record, path: str | None) -> str | None:
    """Return the document of a question as JSON. A text should be JSON already."""
    text = _as_text(record, path)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise record.error(f"'{path}' should be JSON, found {text!r:.60}.") from error
    return known_doc(record, found) or text


def known_doc(record: Record, row: object) -> str | None:
    """Return what scorers and judges read of a row of IFEval, HumanEval, MBPP or LiveCodeBench, or of HealthBench's criteria; None for another document.

    Raises:
        ImportFileError: If such a row is not complete.
    """
    if isinstance(row, list) and all(
        isinstance(part, dict) and "criterion" in part for part in row
    ):
        return json_text({"criteria": row})
    if not isinstance(row, Mapping):
        return None
    try:
        if {"prompt", "instruction_id_list", "kwargs"} <= row.keys():
            given = row["kwargs"]
            if isinstance(given, Mapping):  # Inspect's logs have the arguments by number
                given = [given.get(str(n)) for n in range(len(row["instruction_id_list"]))]
            instructions = read_instructions(0, {**row, "kwargs": given})
            return json_text({"prompt": row["prompt"], "instructions": instructions})
        if {"prompt", "test", "entry_point"} <= row.keys():
            prompt, function = str(row["prompt"]), row["entry_point"]
            task = doc_of(
                function=function,
                prompt=f"{prompt.strip()}\n",
                before=prompt.partition(f"def {function}(")[0].strip(),
                tests=[{"source": row["test"]}],
                has_check=True,
            )
            return json_text(task)
        if "test_list" in row and {"test_setup_code", "test_imports"} & row.keys():
            before = [row.get("test_setup_code") or "", *(row.get("test_imports") or ())]
            source = "\n".join([*before, *row["test_list"]])
            return json_text(doc_of(tests=[{"source": source}]))
        if {"public_test_cases", "private_test_cases", "metadata"} <= row.keys():
            task = contest_task(0, row).model_dump(mode="json", exclude_defaults=True)
            return json_text(task)
    except (RowError, ContestTestsError, ValidationError, TypeError) as error:
        raise record.error(f"its document cannot be used: {error}") from error
    return None


def _as_text(record: Record, path: str | None) -> str | None:
    return _text(record.need(path)) if path is not None else None


def _text(value: Json) -> str | None:
    """Convert a value to text: a number as Python prints it, lists, objects and truth values as JSON.

    Null stays None; so does NaN, by which Parquet files of pandas mark missing values.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return whole_characters(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else as_json(value)
