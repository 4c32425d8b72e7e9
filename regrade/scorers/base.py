"""Interface of all scorers; shared code that extracts the answer from a text and builds the scores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import pyarrow as pa

from regrade.records.columns import SCORE_SCHEMA
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.continuing import NextQuestion, without_next_question
from regrade.scorers.extraction.pieces import Pieces, characters
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError

SHARED_COLUMNS = ("sample_id", "repeat", "subset", "finish_reason", "error", "reasoning_open")
"""Columns of `GENERATION_SCHEMA` that every scorer needs."""

PROMPT_FORMAT = "prompt_format"
"""Column that scoring adds to the generations: `chat` or `completion`; null or missing if it is unknown."""

TargetKind = Literal["number", "letter", "text", "texts"]
"""Kind of the targets that a scorer compares with: `letter` is the letter of a choice; `texts` is one text or several
accepted texts, as `regrade.scorers.extraction.accepted` stores them."""

NEXT_QUESTION = ("next_heading", "next_cue")
"""Columns that scoring adds, too, each with one pattern for all rows: fields of `NextQuestion`. Missing if the template of the
prompts is not known."""


class Scorer(Protocol):
    """Reads a value from every answer, and compares the value with the target."""

    name: ScorerName
    version: int
    """Version, raised when the scorer is changed to read or accept different answers."""
    description: str
    """Description of the extracted value, in one or two sentences."""
    unparsed: str
    """Description of the answers that are unparsed."""
    targets: TargetKind
    """Kind of the targets; a dataset's target column is converted to it."""
    columns: tuple[str, ...]
    """Columns of `GENERATION_SCHEMA` that the scorer needs in addition to `SHARED_COLUMNS`."""

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row of the batch, in the same order.

        Args:
            batch: At least `SHARED_COLUMNS` and `columns` of `GENERATION_SCHEMA`, and `PROMPT_FORMAT` and
                `NEXT_QUESTION` if they are known.

        Raises:
            SettingsError: If a target is not of the scorer's kind.
        """


@dataclass(frozen=True, slots=True)
class Reading:
    """Values read from the rows of a batch."""

    extracted: c.Strings
    """Extracted values; null if nothing could be read."""
    correct: c.Mask
    """True for right answers; null counts as wrong."""
    place: Pieces | None = None
    """Parts of the texts from which the values were read; None if the scorer does not read the text."""


def answer_part(batch: pa.RecordBatch) -> Pieces:
    """Return the answers of a batch; null for rows without an answer.

    - A row with an error, or without text, has no answer.
    - Text up to and including the last `</think>` is reasoning. A row has no answer if a `<think>` is still open
      after that, or if the prompt opened a `<think>` that the text never closes.
    - A model may go on with another question. The answer ends where the template of the prompt recurs: see
      `without_next_question`.

    Args:
        batch: Needs the columns `text`, `error` and `reasoning_open`; `PROMPT_FORMAT` and `NEXT_QUESTION` if they are known.
    """
    answers = Pieces.whole(c.column(batch, "text"))
    answers = answers.where(c.is_missing(c.column(batch, "error")))
    opened = c.flags(batch, "reasoning_open")
    if c.is_any(opened):
        answers = answers.without(c.both(opened, c.negated(answers.matches("</think>"))))
    if c.is_any(answers.matches("</?think>")):
        answers = answers.after_last("</think>").otherwise(answers)
        answers = answers.without(answers.matches("<think>"))
    return _without_next_question(batch, answers)


def _without_next_question(batch: pa.RecordBatch, answers: Pieces) -> Pieces:
    names = batch.schema.names
    known = None
    if batch.num_rows and NEXT_QUESTION[0] in names:
        known = NextQuestion(*(str(batch[name][0]) for name in NEXT_QUESTION))
    is_completion = c.falsy(pa.nulls(batch.num_rows, pa.bool_()))
    if PROMPT_FORMAT in names:
        is_completion = c.is_equal(c.column(batch, PROMPT_FORMAT), "completion")
    return without_next_question(answers, known, is_completion)


def score_each(
    batch: pa.RecordBatch, score: Callable[[str, str], tuple[str | None, bool]]
) -> pa.RecordBatch:
    """Return the scores of a Python function, which is called once for each distinct pair of answer and target.

    Simple, but slower than whole columns: see `score_rows`.

    Args:
        batch: Needs `SHARED_COLUMNS`, `target` and `text`.
        score: Takes answer and target; returns the extracted value, or None if nothing could be read, and True if it is
            right.
    """
    cached = cache(score)
    answers, targets = answer_part(batch).text.to_pylist(), c.column(batch, "target").to_pylist()
    results = [
        (None, False) if answer is None or target is None else cached(answer, target)
        for answer, target in zip(answers, targets, strict=True)
    ]
    extracted = pa.array([value for value, _ in results], pa.string())
    return score_rows(
        batch, Reading(extracted, pa.array([right for _, right in results], pa.bool_()))
    )


def check_targets(scorer: str, expected: str, batch: pa.RecordBatch, usable: c.Mask) -> None:
    """Reject targets of the wrong kind: these answers need another scorer.

    Args:
        scorer: Name of the scorer.
        expected: Kind of the scorer's targets, for the message, such as "a number".
        batch: Needs the columns `sample_id` and `target`.
        usable: True for each row whose target has this kind.

    Raises:
        SettingsError: If a target has another kind. Names the first such row.
    """
    if usable.true_count == len(usable):
        return
    row = usable.to_pylist().index(False)
    sample, target = (batch.column(name)[row].as_py() for name in ("sample_id", "target"))
    raise SettingsError(
        f"Scorer '{scorer}' compares with {expected}, but the target of sample '{sample}' is '{target}'. "
        "Choose another scorer with `--scorer`."
    )


def score_rows(batch: pa.RecordBatch, reading: Reading) -> pa.RecordBatch:
    """Return the scores of a batch. Rows with an error are `failed`; rows without an extracted value are `unparsed`.

    Args:
        batch: Needs `SHARED_COLUMNS`.
        reading: Values for every row of the batch; values of rows with an error are ignored.
    """
    failed = c.is_present(c.column(batch, "error"))
    extracted = c.choose(failed, None, reading.extracted)
    read = c.is_present(extracted)
    right = c.both(read, c.falsy(reading.correct)).to_numpy(zero_copy_only=False)
    value = pa.array(right, pa.float64(), mask=failed.to_numpy(zero_copy_only=False))
    start, end = pa.nulls(batch.num_rows, pa.int32()), pa.nulls(batch.num_rows, pa.int32())
    if reading.place is not None:
        start, end = characters(c.column(batch, "text"), reading.place.where(read))
    columns = {
        "sample_id": batch.column("sample_id"),
        "repeat": batch.column("repeat"),
        "subset": batch.column("subset"),
        "value": value,
        "extracted": extracted,
        "start": start,
        "end": end,
        "outcome": c.choose(failed, "failed", c.choose(read, "scored", "unparsed")),
        "truncated": c.is_equal(c.column(batch, "finish_reason"), "length"),
    }
    return pa.record_batch([columns[name] for name in SCORE_SCHEMA.names], schema=SCORE_SCHEMA)
