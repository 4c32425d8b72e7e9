"""Scorer that reads the number after `####`, the form of GSM8K's solutions (Cobbe et al. 2021, arXiv 2110.14168)."""

import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, check_targets, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.numerals import first_number, whole_number
from regrade.settings import ScorerName

_HEADING = r"\A[ \t*]*[0-9]+[.):]\**[ \t]+[A-Za-z*]"
"""Markdown heading, such as `#### 1. Compute the cost`: not an answer."""


class NumberStrictScorer:
    """Reads only a number after `####`."""

    name: ScorerName = "number_strict"
    version = 1
    description = (
        "The number after the last `####` that a number follows. Compared as numbers: 72 is $72.00."
    )
    unparsed = "An answer without `####` and a number after it."
    targets: TargetKind = "number"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        return score_numbers(self.name, batch, number_after_hashes(answer_part(batch)))


def number_after_hashes(texts: c.Strings) -> c.Strings:
    """Return the number after the last `####` that has a number on its line; null without such a `####`."""
    after = c.after_last(texts, "####")
    number = _number_of_line(after)
    # If no number follows the last `####`, such as in a heading, an earlier `####` may have one.
    other = c.both(c.is_present(after), c.is_missing(number))
    earlier = c.captured(
        c.choose(other, texts, None), r"(?s).*####(?P<after>[^0-9A-Za-z\n]*[0-9][^\n]*)"
    )
    return c.coalesced(number, _number_of_line(earlier["after"]))


def _number_of_line(after: c.Strings) -> c.Strings:
    line = c.captured(after, r"\A(?P<line>[^\n]*)")["line"]
    return first_number(c.choose(c.is_match(line, _HEADING), None, line))


def score_numbers(scorer: ScorerName, batch: pa.RecordBatch, numbers: c.Strings) -> pa.RecordBatch:
    """Return the scores of numbers in canonical form, by comparing them with the batch's targets.

    Raises:
        SettingsError: If a target is not a number.
    """
    targets = whole_number(c.column(batch, "target"))
    check_targets(scorer, "a number", batch, c.is_present(targets))
    return score_rows(batch, Reading(numbers, c.is_equal(numbers, targets)))


scorer = NumberStrictScorer
