"""What every scorer offers, and the one place where answers begin and where scores are made of what was read."""

from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from regrade.errors import SettingsError
from regrade.records import SCORE_SCHEMA
from regrade.scorers.extraction import columns as c
from regrade.settings import ScorerName

SHARED_COLUMNS = ("sample_id", "repeat", "subset", "finish_reason", "error", "reasoning_open")
"""Columns of `GENERATION_SCHEMA` that scoring always needs, whatever the scorer."""

TargetKind = Literal["number", "letter", "text"]
"""Kind of the targets that a scorer compares with; `letter` is the letter of a choice."""

_NEXT_QUESTION = r"\n[ \t]*(?:Question|Q):"


class Scorer(Protocol):
    """Reads an answer out of every generation, and says whether it is right."""

    name: ScorerName
    version: int
    """Raised when what is read or accepted changes on purpose."""
    description: str
    """What it extracts, in one or two sentences."""
    unparsed: str
    """What it calls unparsed."""
    targets: TargetKind
    """Kind of the targets that it compares with: a dataset's target column becomes that."""
    columns: tuple[str, ...]
    """Columns of `GENERATION_SCHEMA` that it needs beyond `SHARED_COLUMNS`."""

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row of `SCORE_SCHEMA` per row, in the same order.

        Args:
            batch: At least `SHARED_COLUMNS` and `columns` of `GENERATION_SCHEMA`.

        Raises:
            SettingsError: If a target is not of the kind that this scorer compares with.
        """


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read out of the rows of a batch."""

    extracted: c.Strings
    """Null where nothing could be read."""
    correct: c.Mask
    """Null counts as wrong."""


def answer_part(batch: pa.RecordBatch) -> c.Strings:
    """Return the answers of a batch, null where there is none.

    - A row with an error, or without text, has no answer.
    - Text up to and including the last `</think>` is reasoning. Where a `<think>` is still open after that,
      the answer has not begun; neither has it where the prompt opened one that the text never closes.
    - A base model that nothing stopped goes on with a question of its own: the answer ends before the first
      line that begins with `Question:` or `Q:`, unless there is nothing before it.

    Args:
        batch: With the columns `text`, `error` and `reasoning_open`.
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
    """Refuse targets that a scorer cannot compare with: such answers were made for another scorer.

    Args:
        scorer: Name of the scorer.
        expected: What its targets are, such as "a number".
        batch: With the columns `sample_id` and `target`.
        usable: True where the target is as expected.

    Raises:
        SettingsError: Naming the first row whose target is not.
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
    """Return the scores of a batch: `failed` where there is an error, `unparsed` where nothing was read.

    Args:
        batch: At least `SHARED_COLUMNS`.
        reading: As many rows as the batch; what it says of rows with an error is ignored.
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
        "outcome": c.choose(failed, "failed", c.choose(read, "scored", "unparsed")),
        "truncated": c.is_equal(c.column(batch, "finish_reason"), "length"),
    }
    return pa.record_batch([columns[name] for name in SCORE_SCHEMA.names], schema=SCORE_SCHEMA)
