"""Batches of generations for scorer tests."""

import atexit
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import pyarrow as pa

from regrade.records import Completion, Sample
from regrade.records.columns import GENERATION_SCHEMA, generation_row
from regrade.scorers import load_scorer
from regrade.scorers.base import PROMPT_FORMAT, SHARED_COLUMNS
from regrade.scorers.sessions import BatchScore, ScoringContext, SessionScorer
from regrade.settings import ScoringOptions
from tests.builders import specification

# Each process imports what it needs, in seconds of a CPU.
CONTEXT = ScoringContext(ScoringOptions(processes=1), specification())


def any_target(scorer: str) -> str:
    """Return a target that a scorer of texts takes."""
    return "1" if scorer.startswith("number") else "A"


def generations(
    texts: Sequence[str | None],
    targets: str | Sequence[str],
    *,
    choices: Sequence[str] | Sequence[Sequence[str]] = (),
    **changes: Any,
) -> pa.RecordBatch:
    """Return a batch with a row per text. `targets` and `choices` are shared by all rows, or given per row."""
    rows = []
    for number, text in enumerate(texts):
        target = targets if isinstance(targets, str) else targets[number]
        row_choices = choices if not choices or isinstance(choices[0], str) else choices[number]
        sample = Sample(
            f"sample-{number}", number, target, {}, choices=tuple(map(str, row_choices))
        )
        completion = Completion(number, prompt="?", text=text, finish_reason="stop")
        rows.append(generation_row(sample, 0, completion) | changes)
    return pa.RecordBatch.from_pylist(rows, schema=GENERATION_SCHEMA)


_OPENED = ExitStack()
atexit.register(_OPENED.close)


@cache
def batch_score(scorer: str) -> BatchScore:
    """Return the function of a scorer that scores a batch; a `SessionScorer` stays open until the tests end."""
    loaded = load_scorer(scorer)
    if not isinstance(loaded, SessionScorer):
        return loaded.score
    return _OPENED.enter_context(loaded.session(CONTEXT))


def scored(scorer: str, batch: pa.RecordBatch, prompt_format: str | None = None) -> pa.RecordBatch:
    """Return the scores of a batch, computed from only the columns that the scorer declares."""
    loaded = load_scorer(scorer)
    columns = batch.select([*SHARED_COLUMNS, *loaded.columns])
    formats = pa.array([prompt_format] * batch.num_rows, pa.string())
    return batch_score(scorer)(columns.append_column(PROMPT_FORMAT, formats))


def read(scorer: str, text: str | None, target: str, **changes: Any) -> dict[str, Any]:
    """Return the score of a single generation as a row."""
    return scored(scorer, generations([text], target, **changes)).to_pylist()[0]
