"""Batches of stored answers, as scorers read them."""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from regrade.answers.sets import AnswerSet
from regrade.answers.withheld import COLUMNS as WITHHELD
from regrade.records.columns import SCORING_SCHEMA
from regrade.records.specification import Specification
from regrade.scorers.base import NEXT_QUESTION, PROMPT_FORMAT, SHARED_COLUMNS, answer_part
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.continuing import NextQuestion, of_prompts, of_template
from regrade.scorers.sessions import AnyScorer, BatchScore, Unit
from regrade.settings import JUDGE_NAME
from regrade.settings.errors import RegradeError, SettingsError
from regrade.text.text import part_of

logger = logging.getLogger("regrade.score")

PROMPTS_READ = 64
"""Prompts of an answer set that are read for what they have in common."""
KNOWN_BY = ("target", "text", "error", "label_logprobs")
"""Columns that tell whether there is an answer, and something to compare it with."""
_NO_COINCIDENCE = 20
"""Answers of a batch from which on a scorer that fails at all of them ends the scoring: it is not the answers."""


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
    specification = answers.manifest.specification
    known = next_question(specification, lambda: _first_prompts(answers))
    yield from with_next_question(batches, specification.prompt.format, known)


def with_next_question(
    batches: Iterable[pa.RecordBatch], prompt_format: str | None, known: NextQuestion | None
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns that `with_prompts` adds."""
    prompt_kind = pa.scalar(prompt_format, pa.string())
    for batch in batches:
        batch = batch.append_column(  # noqa: PLW2901 - the same batch
            PROMPT_FORMAT, pa.repeat(prompt_kind, batch.num_rows)
        )
        if known is not None:
            same = pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)
            for name, pattern in zip(NEXT_QUESTION, (known.heading, known.cue), strict=True):
                column = pa.DictionaryArray.from_arrays(same, pa.array([pattern]))
                batch = batch.append_column(name, column)  # noqa: PLW2901 - the same batch
        yield batch


def next_question(
    specification: Specification, prompts: Callable[[], Sequence[str | None]]
) -> NextQuestion | None:
    """Return how the model would begin another question: by the template of its prompts, or else by some of the prompts.

    A judge quotes questions.

    Args:
        specification: The answer set.
        prompts: Returns some of its prompts.
    """
    if re.fullmatch(JUDGE_NAME, specification.benchmark.name):
        return NextQuestion("")
    known = of_template(specification.prompt.template)
    return known or of_prompts([prompt for prompt in prompts() if prompt])


def _first_prompts(answers: AnswerSet) -> list[str | None]:
    """Return the first prompts; none of withheld questions: scores must not depend on the machine."""
    manifest = answers.manifest
    if manifest.withheld or not manifest.shards:
        return []
    first = manifest.shards[0]
    rows = answers.shard(first, ["prompt"]).take(range(min(first.rows, PROMPTS_READ)))
    return list(rows["prompt"].to_pylist())


def stored_rows(
    answers: AnswerSet, numbers: Sequence[int], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Return some rows, reading only the shards that hold them; without questions that are withheld.

    Args:
        answers: The answer set.
        numbers: Numbers of the rows in stored order, ascending from 0.
        columns: Names out of `GENERATION_SCHEMA`.

    Raises:
        DamagedAnswersError: If such a shard does not match the manifest.
    """
    rows: list[dict[str, Any]] = []
    start = 0
    for shard in answers.manifest.shards:
        inside = [row - start for row in numbers if start <= row < start + shard.rows]
        if inside:
            rows += answers.shard(shard, columns).take(inside).to_pylist()
        start += shard.rows
    return rows


def score_batch(
    score: BatchScore, columns: Collection[str], batch: pa.RecordBatch, unit: Unit = "rows"
) -> pa.RecordBatch:
    """Return the scores of a batch as they are stored (`SCORING_SCHEMA`).

    A row without an answer, whose target is unknown, or at which the scorer fails, has no value: it is missing, not wrong. An
    answer that is unparsed because its reasoning never ended is `unfinished`.

    Args:
        score: Scores a batch whose targets are known, of answers and errors.
        columns: `columns` of its scorer.
        batch: As `batches_for` yields it.
        unit: Rows that the scorer has to see at once.

    Raises:
        RegradeError: If the scorer cannot score these answers, or what it needs, such as a sandbox, fails.
        Exception: What the scorer raised, if it fails at all answers of a batch, or has to see them at once.
    """
    known = is_known(batch, columns)
    answerable = batch.filter(pa.array(known))
    failures: list[tuple[str, Exception]] = []
    if unit == "subset":
        scored = [_completed(score(answerable), answerable)] if known.any() else []
    else:
        scored = _scored(score, answerable, failures)
    if failures:
        sample, error = failures[0]
        if len(answerable) >= _NO_COINCIDENCE and len(failures) == len(answerable):
            raise error
        logger.warning(
            "%s are not scored, because the scorer fails at them; the first is sample '%s': %s: %s",
            part_of(len(failures), len(batch), "answer"),
            sample,
            type(error).__name__,
            error,
        )
    if known.all():
        return _one_batch(scored)
    order = np.argsort(np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)]))
    return _one_batch([*scored, _without_value(batch.filter(pa.array(~known)))]).take(order)


def is_known(batch: pa.RecordBatch, columns: Collection[str]) -> NDArray[np.bool_]:
    """Return True for each row whose answer and target are known, as far as a scorer reads them; an error is an answer here.

    Args:
        batch: Rows, at least with `KNOWN_BY` that the scorer reads.
        columns: `columns` of the scorer.
    """
    known = np.ones(len(batch), np.bool_)
    if "target" in columns:
        known &= np.asarray(batch["target"].is_valid())
    if read := [name for name in ("text", "label_logprobs") if name in columns]:
        known &= np.any([np.asarray(batch[name].is_valid()) for name in (*read, "error")], axis=0)
    if "label_logprobs" in columns:
        # Earlier versions kept null for the log-probability of a choice if it was minus infinity.
        lists = batch["label_logprobs"]
        missing = np.asarray(pc.list_flatten(lists).is_null())
        known[np.asarray(pc.list_parent_indices(lists))[missing]] = False
    return known


def _scored(
    score: BatchScore, batch: pa.RecordBatch, failures: list[tuple[str, Exception]]
) -> list[pa.RecordBatch]:
    """Return the scores of a batch, in parts. An answer at which the scorer fails costs its row: halves are scored apart.

    Args:
        score: Scores a batch.
        batch: Answers whose targets are known.
        failures: Gets the sample and the error of each such answer.
    """
    if not len(batch):
        return []
    try:
        return [_completed(score(batch), batch)]
    except RegradeError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a scorer raises at a text
        if len(batch) == 1:
            failures.append((str(batch["sample_id"][0]), error))
            return [_without_value(batch)]
        half = len(batch) // 2
        halves = (batch.slice(0, half), batch.slice(half))
        return [part for rows in halves for part in _scored(score, rows, failures)]


def _without_value(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return scores without a value."""
    missing = {
        **{name: batch[name] for name in ("sample_id", "repeat", "subset")},
        "outcome": pa.array(["failed"] * len(batch)),
        "truncated": pa.array([end == "length" for end in batch["finish_reason"].to_pylist()]),
    }
    return pa.RecordBatch.from_pydict(
        {
            field.name: missing.get(field.name, pa.nulls(len(batch), field.type))
            for field in SCORING_SCHEMA
        },
        schema=SCORING_SCHEMA,
    )


def _one_batch(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts, SCORING_SCHEMA).combine_chunks()
    columns = [column.combine_chunks() for column in table.columns]
    return pa.record_batch(columns, schema=SCORING_SCHEMA)


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
