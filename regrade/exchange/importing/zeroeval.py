"""Reader of ZeroEval outputs (https://github.com/WildEval/ZeroEval): a JSON list; `output` is a list of texts.

The files hold no scores; ZeroEval computes them with another program.
"""

from regrade.exchange.importing.base import Columns, ImportedSet, TableOptions
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.table import SCORE, table_rows

COLUMNS = Columns(question="question", text="output", target="answer", prompt="model_input")
_NO_PROMPT = "n/a"
"""ZeroEval's `model_input` if only the messages are recorded."""


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Read the answers. GSM8K targets are written as `# 18`."""
    first = file.rows[0]
    rows = []
    for index, record in enumerate(file.rows):
        columns = COLUMNS
        if record.get("model_input") in (None, _NO_PROMPT):
            columns = columns.model_copy(update={"prompt": None})
        target_after = options.target_after or ("# " if _is_gsm(record.get("answer")) else None)
        rows += table_rows(index, record, TableOptions(columns, target_after), SCORE)
    return ImportedSet(
        rows,
        model=first.text("generator"),
        benchmark=first.text("dataset"),
        format="chat",
        config=first.text("config"),
        recorded={"sampling": first.part("configs").value, "dataset": first.text("source")},
    )


def _is_gsm(answer: object) -> bool:
    return isinstance(answer, str) and answer.startswith("# ")
