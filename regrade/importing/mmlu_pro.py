"""Outputs of MMLU-Pro's own program (https://github.com/TIGER-AI-Lab/MMLU-Pro): a zip with a JSON list in it.

Its letter `pred` is kept as it was stored. A row without one counts as wrong; the original gives it a random letter.
"""

import re
from dataclasses import replace

from regrade.importing.base import (
    Columns,
    Given,
    ImportedRow,
    ImportedSet,
    OriginalScore,
    TableOptions,
)
from regrade.importing.files import SourceFile
from regrade.importing.record import Record
from regrade.importing.table import table_rows

COLUMNS = Columns(
    question="question",
    text="generated_text",
    target="answer",
    choices="options",
    subset="category",
)
SCORE = "pred equals answer"
_NAME = re.compile(r"model_outputs_(?P<model>.+)_(?P<shots>[0-9]+)shots?")


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Return the answers of a file; the model's name and the number of examples are in the file's name."""
    table = TableOptions(COLUMNS, options.target_after)
    rows = [
        _scored(row, record)
        for index, record in enumerate(file.rows)
        for row in table_rows(index, record, table, SCORE)
    ]
    name = _NAME.fullmatch(file.path.stem)
    return ImportedSet(
        rows,
        model=name["model"] if name else None,
        benchmark="mmlu-pro",
        n_shots=int(name["shots"]) if name else None,
        originals=(OriginalScore(SCORE),),
    )


def _scored(row: ImportedRow, record: Record) -> ImportedRow:
    letter = record.text("pred")
    return replace(
        row, given={SCORE: Given(float(letter == row.target), letter, unread=letter is None)}
    )
