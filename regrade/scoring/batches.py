"""Batches of stored answers, as scorers read them."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from regrade.answers.sets import AnswerSet
from regrade.errors import SettingsError
from regrade.records import SCORE_SCHEMA
from regrade.scorers.base import PROMPT_FORMAT, SHARED_COLUMNS, Scorer, answer_part
from regrade.scorers.extraction import columns as c


def batches_for(answers: AnswerSet, scorer: Scorer) -> Iterator[pa.RecordBatch]:
    """Yield the answers with the columns that a scorer needs.

    Raises:
        SettingsError: If the scorer needs targets, and no answer has one; raised after the last batch.
        DamagedAnswersError: If the answers do not match their manifest.
    """
    columns = list(dict.fromkeys([*SHARED_COLUMNS, *scorer.columns]))
    rows = without_target = 0
    for batch in answers.batches(columns):
        rows += len(batch)
        without_target += batch["target"].null_count if "target" in columns else 0
        yield with_prompt_format(batch, answers)
    if rows and without_target == rows:
        raise SettingsError(
            f"Answer set '{answers.manifest.answer_set_id}' was imported without the right answers: "
            f"scorer '{scorer.name}' has nothing to compare with."
        )


def with_prompt_format(batch: pa.RecordBatch, answers: AnswerSet) -> pa.RecordBatch:
    """Return a batch with the column `PROMPT_FORMAT`, which tells scorers where an answer ends."""
    prompt_format = answers.manifest.specification.prompt.format
    column = pa.repeat(pa.scalar(prompt_format, pa.string()), batch.num_rows)
    return batch.append_column(PROMPT_FORMAT, column)


def score_batch(scorer: Scorer, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Score a batch.

    An answer whose target is unknown has no value: it is missing, not wrong. An answer that is unparsed because its
    reasoning never ended is `unfinished`.

    Args:
        scorer: Any scorer.
        batch: As `batches_for` yields it.
    """
    if "target" not in scorer.columns or not batch["target"].null_count:
        return _with_unfinished(scorer.score(batch), batch)
    known = np.asarray(batch["target"].is_valid())
    unknown = batch.filter(pa.array(~known))
    missing = {
        **{name: unknown[name] for name in ("sample_id", "repeat", "subset")},
        "outcome": pa.array(["failed"] * len(unknown)),
        "truncated": pa.array([end == "length" for end in unknown["finish_reason"].to_pylist()]),
    }
    nothing = pa.RecordBatch.from_pydict(
        {
            field.name: missing.get(field.name, pa.nulls(len(unknown), field.type))
            for field in SCORE_SCHEMA
        },
        schema=SCORE_SCHEMA,
    )
    answerable = batch.filter(pa.array(known))
    scored = [_with_unfinished(scorer.score(answerable), answerable)] if known.any() else []
    order = np.argsort(np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)]))
    [batch] = pa.Table.from_batches([*scored, nothing]).take(order).combine_chunks().to_batches()
    return batch


def _with_unfinished(scores: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the scores with the outcome `unfinished` where a thought is still open at the end of the answer."""
    unparsed = c.is_equal(c.column(scores, "outcome"), "unparsed")
    if "text" not in batch.schema.names or not c.is_any(unparsed):
        return scores
    # The only texts without an answer part are those in which a thought is open.
    has_answer = answer_part(batch).present
    unfinished = c.both(
        unparsed, c.both(c.is_present(c.column(batch, "text")), c.negated(has_answer))
    )
    if not c.is_any(unfinished):
        return scores
    outcome = c.choose(unfinished, "unfinished", c.column(scores, "outcome"))
    columns = {**{name: scores[name] for name in scores.schema.names}, "outcome": outcome}
    return pa.record_batch(list(columns.values()), schema=scores.schema)
