"""Reader of outputs of MMLU-Pro's program (https://github.com/TIGER-AI-Lab/MMLU-Pro): a zip with one JSON list.

The original score is that of the stored letter `pred`. A row without a letter counts as wrong; MMLU-Pro itself guesses
a random letter.
"""

import re
from dataclasses import replace

from regrade.exchange.importing.base import (
    Columns,
    ImportedSet,
    OriginalScore,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.table import table_rows

COLUMNS = Columns(
    question="question",
    text="generated_text",
    target="answer",
    choices="options",
    subset="category",
)
SCORE = "pred equals answer"
"""Name of the original score."""
_NAME = re.compile(r"model_outputs_(?P<model>.+)_(?P<shots>[0-9]+)shots?")


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Read the answers; model and number of examples are taken from the file name."""
    table = TableOptions(COLUMNS, options.target_after)
    rows = [
        replace(row, scores={SCORE: RowScore(None, record.text("pred"))})
        for index, record in enumerate(file.rows)
        for row in table_rows(index, record, table, SCORE)
    ]
    name = _NAME.fullmatch(file.path.stem)
    return ImportedSet(
        rows,
        model=name["model"] if name else None,
        benchmark="mmlu-pro",
        n_shots=int(name["shots"]) if name else None,
        originals=(OriginalScore(SCORE, by_target=True),),
        scorer="choice_letter_first",
    )
