"""Batches of stored answers, as scorers read them."""

import re
from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa

from regrade.answers.sets import AnswerSet
from regrade.answers.withheld import COLUMNS as WITHHELD
from regrade.records.columns import SCORING_SCHEMA
from regrade.scorers.base import NEXT_QUESTION, PROMPT_FORMAT, SHARED_COLUMNS, answer_part
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.continuing import NextQuestion, of_prompts, of_template
from regrade.scorers.sessions import AnyScorer, BatchScore
from regrade.settings import JUDGE_NAME
from regrade.settings.errors import SettingsError

_PROMPTS_READ = 64
"""Prompts of an answer set that are read for what they have in common."""


def batches_for(answers: AnswerSet, scorer: AnyScorer) -> Iterator[pa.RecordBatch]:
    """Yield the answers with the columns that a scorer needs.

    Raises:
        SettingsError: If the scorer needs targets, and no answer has one; raised after the last batch.
        DamagedAnswersError: If the answers do not match their manifest.
    """
    columns = list(dict.fromkeys([*SHARED_COLUMNS, *scorer.columns]))
    _require_questions(answers, scorer)
    rows = without_target = 0
    for batch in with_prompts(answers.batches(columns), answers):
        rows += len(batch)
        without_target += batch["target"].null_count if "target" in columns else 0
        yield batch
    if rows and without_target == rows:
        raise SettingsError(
            f"Answer set '{answers.manifest.answer_set_id}' was imported without the right answers: "
            f"scorer '{scorer.name}' has nothing to compare with."
        )


def lacking_questions(answers: AnswerSet, scorer: AnyScorer) -> int:
    """Count the questions that a scorer reads and that are missing here, because they are withheld."""
    reads_them = answers.manifest.withheld and set(scorer.columns) & set(WITHHELD)
    return answers.questions.lacks(answers.manifest.n_samples) if reads_them else 0


def _require_questions(answers: AnswerSet, scorer: AnyScorer) -> None:
    """Refuse to score without questions that the scorer reads: the scores would be others."""
    lacking = lacking_questions(answers, scorer)
    if lacking:
        needed = " and ".join(sorted(set(scorer.columns) & set(WITHHELD)))
        raise SettingsError(
            f"Answer set '{answers.manifest.answer_set_id}' is published without its questions, and scorer '{scorer.name}' reads "
            f"their {needed}. {lacking:,} of {answers.manifest.n_samples:,} are missing in '{answers.questions.path}'. Copy that "
            "file from the machine that generated the answers, or run the same `regrade evaluate` here."
        )


def with_prompts(batches: Iterable[pa.RecordBatch], answers: AnswerSet) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns `PROMPT_FORMAT` and `NEXT_QUESTION`, which tell scorers where an answer ends."""
    prompt_format = pa.scalar(answers.manifest.specification.prompt.format, pa.string())
    known = _next_question(answers)
    for batch in batches:
        batch = batch.append_column(  # noqa: PLW2901 - the same batch
            PROMPT_FORMAT, pa.repeat(prompt_format, batch.num_rows)
        )
        if known is not None:
            same = pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)
            for name, pattern in zip(NEXT_QUESTION, (known.heading, known.cue), strict=True):
                column = pa.DictionaryArray.from_arrays(same, pa.array([pattern]))
                batch = batch.append_column(name, column)  # noqa: PLW2901 - the same batch
        yield batch


def _next_question(answers: AnswerSet) -> NextQuestion | None:
    """Return how the model would begin another question: by the template of its prompts, or else by some of the prompts.

    Prompts of questions that are withheld are not read: scores must not depend on the machine. A judge quotes questions.
    """
    manifest = answers.manifest
    if re.fullmatch(JUDGE_NAME, manifest.specification.benchmark.name):
        return NextQuestion("")
    known = of_template(manifest.specification.prompt.template)
    if known is not None or manifest.withheld or not manifest.shards:
        return known
    first = manifest.shards[0]
    rows = answers.shard(first, ["prompt"]).take(range(min(first.rows, _PROMPTS_READ)))
    return of_prompts([prompt for prompt in rows["prompt"].to_pylist() if prompt])


def score_batch(
    score: BatchScore, columns: Collection[str], batch: pa.RecordBatch
) -> pa.RecordBatch:
    """Return the scores of a batch as they are stored (`SCORING_SCHEMA`).

    An answer whose target is unknown has no value: it is missing, not wrong. An answer that is unparsed because its
    reasoning never ended is `unfinished`.

    Args:
        score: Scores a batch whose targets are known.
        columns: `columns` of its scorer.
        batch: As `batches_for` yields it.
    """
    if "target" not in columns or not batch["target"].null_count:
        return _completed(score(batch), batch)
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
            for field in SCORING_SCHEMA
        },
        schema=SCORING_SCHEMA,
    )
    answerable = batch.filter(pa.array(known))
    scored = [_completed(score(answerable), answerable)] if known.any() else []
    order = np.argsort(np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)]))
    [batch] = pa.Table.from_batches([*scored, nothing]).take(order).combine_chunks().to_batches()
    return batch


def _completed(scores: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return scores in `SCORING_SCHEMA`, with the outcome `unfinished` where a thought is open at the end of the answer."""
    columns = {name: scores[name] for name in scores.schema.names}
    columns["outcome"] = _with_unfinished(c.column(scores, "outcome"), batch)
    columns.setdefault("metrics", pa.nulls(scores.num_rows, pa.string()))
    return pa.record_batch([columns[name] for name in SCORING_SCHEMA.names], schema=SCORING_SCHEMA)


def _with_unfinished(outcome: c.Strings, batch: pa.RecordBatch) -> c.Strings:
    unparsed = c.is_equal(outcome, "unparsed")
    if "text" not in batch.schema.names or not c.is_any(unparsed):
        return outcome
    # The only texts without an answer part are those in which a thought is open.
    has_answer = answer_part(batch).present
    unfinished = c.both(
        unparsed, c.both(c.is_present(c.column(batch, "text")), c.negated(has_answer))
    )
    return c.choose(unfinished, "unfinished", outcome)
