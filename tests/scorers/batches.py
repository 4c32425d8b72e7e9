"""Batches of generations for the tests of scorers."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from regrade.records import GENERATION_SCHEMA, Completion, Sample, generation_row
from regrade.scorers import load_scorer
from regrade.scorers.base import SHARED_COLUMNS


def generations(
    texts: Sequence[str | None],
    targets: str | Sequence[str],
    *,
    choices: Sequence[str] | Sequence[Sequence[str]] = (),
    **changes: Any,
) -> pa.RecordBatch:
    """Return a batch with a row per text; `targets` and `choices` are one for all, or one per text."""
    rows = []
    for number, text in enumerate(texts):
        target = targets if isinstance(targets, str) else targets[number]
        own = choices if not choices or isinstance(choices[0], str) else choices[number]
        sample = Sample(f"sample-{number}", number, target, {}, choices=tuple(map(str, own)))
        completion = Completion(number, prompt="?", text=text, finish_reason="stop")
        rows.append(generation_row(sample, 0, completion) | changes)
    return pa.RecordBatch.from_pylist(rows, schema=GENERATION_SCHEMA)


def graded(scorer: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the scores of a batch from which all columns are gone that the scorer does not ask for."""
    loaded = load_scorer(scorer)
    needed = [*SHARED_COLUMNS, *loaded.columns]
    return loaded.score(batch.select(needed))


def read(scorer: str, text: str | None, target: str, **changes: Any) -> dict[str, Any]:
    """Return the score of one generation as a row."""
    return graded(scorer, generations([text], target, **changes)).to_pylist()[0]
