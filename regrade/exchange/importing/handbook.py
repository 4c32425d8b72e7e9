"""Reader of the LLM Engineer's Handbook: datasets `*-results` with a prompt and an answer per row.

https://github.com/PacktPublishing/LLM-Engineers-Handbook, llm_engineering/model/evaluation/evaluate.py. `instruction`
and `output` (the reference answer) come from the dataset of questions. `accuracy` and `style` are a judge's scores from
1 to 3; answers that were not judged yet do not have them.
"""

import re
from dataclasses import replace
from pathlib import PurePosixPath

from regrade.exchange.importing.base import (
    Columns,
    ImportedSet,
    OriginalScore,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.table import table_rows

JUDGED = ("accuracy", "style")
"""Columns with the judge's scores."""
_NAME = re.compile(r"(?P<model>.+)-results")


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Read the answers. The model's name is taken from the dataset's name `MODEL-results`, or from that of a local file."""
    columns = Columns(
        text="answers",
        prompt="prompt",
        question="instruction" if "instruction" in file.columns else None,
        target="output" if "output" in file.columns else None,
    )
    table = TableOptions(columns, options.target_after)
    judged = [name for name in JUDGED if name in file.columns]
    rows = []
    for index, record in enumerate(file.rows):
        scores = {name: RowScore(finite(record.get(name))) for name in judged}
        rows += [replace(row, scores=scores) for row in table_rows(index, record, table, "")]
    name = _NAME.fullmatch(PurePosixPath(file.dataset).name or file.path.stem)
    return ImportedSet(
        rows,
        model=name["model"] if name else None,
        benchmark=None,
        format="completion",
        originals=tuple(OriginalScore(name, low=1.0, high=3.0) for name in judged),
    )
