"""Scorer that reads the number after `####`, the form of GSM8K's solutions (Cobbe et al. 2021, arXiv 2110.14168)."""

import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, check_targets, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.numerals import direct_number, whole_number
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import Found, Slots, read
from regrade.settings import ScorerName

HASHES = (("####", r"(?P<content>[^\n]*)"),)
_HEADING = r"\A[ \t*]*[0-9]+[.):]\**[ \t]+[A-Za-z*]"
"""Markdown heading, such as `#### 1. Compute the cost`: not an answer."""


class NumberStrictScorer:
    """Reads only a number after `####`."""

    name: ScorerName = "number_strict"
    version = 3
    description = (
        "The number after the last `####` that a number follows. Compared as numbers: 72 is $72.00."
    )
    unparsed = "An answer without `####` and a number after it, or with an expression there, such as `70 + 2`."
    targets: TargetKind = "number"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        return score_numbers(self.name, batch, number_after_hashes(answer_part(batch)))


def number_after_hashes(texts: Pieces) -> Found:
    """Read the number after the last `####` that has a number on its line."""
    found, _ = read(texts, HASHES, _read_line)
    return found


def _read_line(slots: Slots) -> Found:
    return direct_number(slots.content.without(slots.content.matches(_HEADING)))


def score_numbers(scorer: ScorerName, batch: pa.RecordBatch, numbers: Found) -> pa.RecordBatch:
    """Return the scores of numbers in canonical form, by comparing them with the batch's targets.

    Raises:
        SettingsError: If a target is not a number.
    """
    targets = whole_number(c.column(batch, "target"))
    check_targets(scorer, "a number", batch, c.is_present(targets))
    correct = c.is_equal(numbers.value, targets)
    return score_rows(batch, Reading(numbers.value, correct, numbers.place))


scorer = NumberStrictScorer
