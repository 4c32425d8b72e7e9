"""Scorer that reads a number from an answer in any common form, for GSM8K and similar benchmarks."""

import pyarrow as pa

from regrade.scorers.base import TargetKind, answer_part
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.numerals import first_number, last_number
from regrade.scorers.number_strict import number_after_hashes, score_numbers
from regrade.settings import ScorerName

_SLOT = r"""(?i:\banswer)["'*_]*[ \t]*[:=]|\\boxed\{|(?:\A|\n)[ *]*A:"""
"""Markers that the answer must follow: without a number after them, the answer is unparsed."""
_MARKER = _SLOT + r"""|(?i:\banswer[*_]*[ \t]*is)"""
_REACH = 200
"""Length of the text read after a marker, in characters."""


class NumberScorer:
    """Reads the number after `####`, else after `answer is` or in a box, else the last number."""

    name: ScorerName = "number"
    version = 1
    description = (
        "The number after the last `####`; else after the last `answer is`, `answer:`, `A:` or in the last "
        "`\\boxed{}`; else the last number (after `answer:`, where there is one). Compared as numbers: 72 is $72.00."
    )
    unparsed = (
        "An answer without any number, or with `answer:` or a box and no number in or after it."
    )
    targets: TargetKind = "number"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        texts = answer_part(batch)
        number = number_after_hashes(texts)
        rest = c.choose(c.is_missing(number), texts, None)
        marked = first_number(c.shortened(c.after_last(rest, _MARKER), _REACH))
        rest = c.choose(c.is_missing(marked), rest, None)
        last = last_number(c.coalesced(c.after_last(rest, _SLOT), rest))
        return score_numbers(self.name, batch, c.coalesced(number, marked, last))


scorer = NumberScorer
