"""Interface of all scorers; shared code that extracts the answer from a text and builds the scores."""

from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from regrade.errors import SettingsError
from regrade.records import SCORE_SCHEMA
from regrade.scorers.extraction import columns as c
from regrade.settings import ScorerName

SHARED_COLUMNS = ("sample_id", "repeat", "subset", "finish_reason", "error", "reasoning_open")
"""Columns of `GENERATION_SCHEMA` that every scorer needs."""

TargetKind = Literal["number", "letter", "text"]
"""Kind of the targets that a scorer compares with; `letter` is the letter of a choice."""

_NEXT_QUESTION = r"\n[ \t]*(?:Question|Q):"


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
            batch: At least `SHARED_COLUMNS` and `columns` of `GENERATION_SCHEMA`.

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


def answer_part(batch: pa.RecordBatch) -> c.Strings:
    """Return the answers of a batch; null for rows without an answer.

    - A row with an error, or without text, has no answer.
    - Text up to and including the last `</think>` is reasoning. A row has no answer if a `<think>` is still open
      after that, or if the prompt opened a `<think>` that the text never closes.
    - A base model may continue with another question. The answer ends before the first line that begins with
      `Question:` or `Q:`, unless nothing comes before that line.

    Args:
        batch: Needs the columns `text`, `error` and `reasoning_open`.
    """
    text = c.choose(c.is_missing(c.column(batch, "error")), c.column(batch, "text"), None)
    opened = c.flags(batch, "reasoning_open")
    text = c.rows_changed(text, opened, _after_reasoning)
    text = c.rows_changed(text, c.is_match(text, "</?think>"), _without_reasoning)
    return c.rows_changed(text, c.is_match(text, _NEXT_QUESTION), _until_next_question)


def _after_reasoning(text: c.Strings) -> c.Strings:
    return c.choose(c.is_match(text, "</think>"), text, None)


def _without_reasoning(text: c.Strings) -> c.Strings:
    rest = c.coalesced(c.after_last(text, "</think>"), text)
    return c.choose(c.is_match(rest, "<think>"), None, rest)


def _until_next_question(text: c.Strings) -> c.Strings:
    return c.before_first(c.trimmed(text), _NEXT_QUESTION)


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
    columns = {
        "sample_id": batch.column("sample_id"),
        "repeat": batch.column("repeat"),
        "subset": batch.column("subset"),
        "value": value,
        "extracted": extracted,
        "start": pa.nulls(batch.num_rows, pa.int32()),
        "end": pa.nulls(batch.num_rows, pa.int32()),
        "outcome": c.choose(failed, "failed", c.choose(read, "scored", "unparsed")),
        "truncated": c.is_equal(c.column(batch, "finish_reason"), "length"),
    }
    return pa.record_batch([columns[name] for name in SCORE_SCHEMA.names], schema=SCORE_SCHEMA)
