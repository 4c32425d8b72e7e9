"""The `*-results` datasets of the LLM Engineer's Handbook: `prompt` and `answers`, one text each.

https://github.com/PacktPublishing/LLM-Engineers-Handbook, llm_engineering/model/evaluation/evaluate.py. `instruction`
and `output` (the reference answer) come from the dataset of questions; `accuracy` and `style` are scores of a judge
from 1 to 3, there once the answers were judged.
"""

import re
from dataclasses import replace

from regrade.importing.base import Columns, Given, ImportedSet, OriginalScore, TableOptions
from regrade.importing.files import SourceFile, finite
from regrade.importing.table import table_rows

JUDGED = ("accuracy", "style")
_NAME = re.compile(r"(?P<model>.+)-results")


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Return the answers of a file. The model's name is that of the dataset, where the file bears it."""
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
        given = {name: Given(finite(record.get(name))) for name in judged}
        rows += [replace(row, given=given) for row in table_rows(index, record, table, "")]
    name = _NAME.fullmatch(file.path.stem)
    return ImportedSet(
        rows,
        model=name["model"] if name else None,
        benchmark=None,
        format="completion",
        originals=tuple(OriginalScore(name, low=1.0, high=3.0) for name in judged),
    )
