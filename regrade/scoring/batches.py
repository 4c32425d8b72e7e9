"""Batches of stored answers, as scorers read them."""

from collections.abc import Iterator

import pyarrow as pa

from regrade.answers.sets import AnswerSet
from regrade.errors import SettingsError
from regrade.scorers.base import PROMPT_FORMAT, SHARED_COLUMNS, Scorer


def batches_for(answers: AnswerSet, scorer: Scorer) -> Iterator[pa.RecordBatch]:
    """Yield the answers with the columns that a scorer needs.

    Raises:
        SettingsError: If the scorer needs targets, and an answer has none.
        DamagedAnswersError: If the answers do not match their manifest.
    """
    columns = list(dict.fromkeys([*SHARED_COLUMNS, *scorer.columns]))
    for batch in answers.batches(columns):
        if "target" in columns and batch["target"].null_count:
            raise SettingsError(
                f"Answer set '{answers.manifest.answer_set_id}' was imported without the right answers: "
                f"scorer '{scorer.name}' has nothing to compare with."
            )
        yield with_prompt_format(batch, answers)


def with_prompt_format(batch: pa.RecordBatch, answers: AnswerSet) -> pa.RecordBatch:
    """Return a batch with the column `PROMPT_FORMAT`, which tells scorers where an answer ends."""
    prompt_format = answers.manifest.specification.prompt.format
    column = pa.repeat(pa.scalar(prompt_format, pa.string()), batch.num_rows)
    return batch.append_column(PROMPT_FORMAT, column)
