"""Reader of ZeroEval outputs (https://github.com/WildEval/ZeroEval): a JSON list; `output` is a list of texts, or a text.

The files hold no scores; ZeroEval computes them with other programs. The names of question and target depend on the dataset.
"""

from regrade.exchange.importing.base import Columns, ImportedSet, TableOptions
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.record import Record
from regrade.exchange.importing.table import SCORE, table_rows
from regrade.settings import ScorerName

_QUESTIONS = ("question", "problem", "puzzle", "instruction")
"""GSM8K, CRUXEval, MMLU-Redux and NumerSense; MATH level 5; ZebraLogic; AlpacaEval."""
_TARGETS = ("answer", "correct_answer")
"""The second is the text of a choice. ZebraLogic's solutions are not in the files, and AlpacaEval has none."""
_NO_PROMPT = "n/a"
"""ZeroEval's `model_input` if only the messages are recorded."""
_SCORERS: dict[object, ScorerName] = {"crux": "literal", "math-l5": "math"}
"""Scorers that compare as ZeroEval's programs do, by dataset; of others, the targets decide."""


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Read the answers. GSM8K targets are written as `# 18`."""
    first = file.rows[0]
    columns = Columns(
        question=_named(first, _QUESTIONS) or _QUESTIONS[0],
        text="output",
        target=_named(first, _TARGETS),
        choices=_named(first, ("choices",)),
    )
    rows = []
    for index, record in enumerate(file.rows):
        has_prompt = record.get("model_input") not in (None, _NO_PROMPT)
        target_after = options.target_after or ("# " if _is_gsm(record.get("answer")) else None)
        known = columns.model_copy(update={"prompt": "model_input" if has_prompt else None})
        rows += table_rows(index, record, TableOptions(known, target_after), SCORE)
    return ImportedSet(
        rows,
        model=first.text("generator"),
        benchmark=first.text("dataset"),
        format="chat",
        config=first.text("config"),
        recorded={"sampling": first.part("configs").value, "dataset": first.text("source")},
        scorer=_SCORERS.get(first.get("dataset")),
    )


def _named(record: Record, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in record.names), None)


def _is_gsm(answer: object) -> bool:
    return isinstance(answer, str) and answer.startswith("# ")
