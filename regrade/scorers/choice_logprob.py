"""Scorer that picks the choice whose label is most likely."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from regrade.scorers.base import Reading, TargetKind, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.choices import letters_at, target_letters
from regrade.settings import ScorerName


class ChoiceLogprobScorer:
    """Reads the letter whose label has the highest log-probability."""

    name: ScorerName = "choice_logprob"
    version = 1
    description = "The letter whose label has the highest log-probability; of equal ones the first."
    unparsed = "A row without log-probabilities, or in which one is not a number or all are minus infinity."
    targets: TargetKind = "letter"
    columns: tuple[str, ...] = ("target", "label_logprobs")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        targets = target_letters(self.name, batch)
        extracted = letters_at(_first_greatest(batch.column("label_logprobs")))
        return score_rows(batch, Reading(extracted, c.is_equal(extracted, targets)))


def _first_greatest(lists: c.Lists) -> NDArray[np.int64]:
    """Return the position of the first maximum of each list; -1 if the list is empty or the maximum is not finite."""
    counts = c.list_lengths(lists)
    values = pc.list_flatten(lists).to_numpy(zero_copy_only=False).astype(np.float64)
    best = np.full(len(lists), -1, np.int64)
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        return best
    starts = (np.cumsum(counts) - counts)[filled]
    greatest = np.maximum.reduceat(values, starts)  # NaN if any value is NaN
    owner = np.repeat(np.arange(filled.size), counts[filled])
    hits = np.flatnonzero(values == greatest[owner])
    owners, first = np.unique(owner[hits], return_index=True)
    found = np.isfinite(greatest[owners])
    best[filled[owners[found]]] = (hits[first] - starts[owners])[found]
    return best


scorer = ChoiceLogprobScorer
