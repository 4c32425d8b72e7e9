"""Scorer of MathVista's answers, without a judge: letters, whole numbers, numbers with decimals, and lists.

Lu et al. 2024, arXiv 2310.02255. The published pipeline asks GPT for the answer in the text, and then compares it: of a question
with choices the nearest choice, of a whole number the part before the point, of others the number rounded to the decimals of the
target. Here the answer is read as by `choice_letter`, `number` and `literal`, and compared in the same way. What cannot be read is
unparsed, and no choice is guessed.
"""

from fractions import Fraction

import pyarrow as pa

from regrade.scorers.choice_or_text import ChoiceOrTextScorer
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.composed import scored_by, with_values
from regrade.scorers.extraction.numerals import whole_number
from regrade.scorers.literal import LiteralScorer
from regrade.scorers.number import NumberScorer
from regrade.settings import ScorerName

_LONGEST_NUMBER = 100
"""Longest number that is compared, in characters."""


class MathVistaScorer(ChoiceOrTextScorer):
    """Reads a letter, a number or a list, as the question asks."""

    name: ScorerName = "mathvista"
    version = 2
    description = (
        "Of a question with choices the letter, as `choice_letter` reads it; if the target is a list, the list as `literal` reads it; else "
        "the number as `number` reads it, without what is after the point, or rounded to the decimals of the target."
    )
    unparsed = "As `choice_letter`, `literal` and `number`."

    def score_open(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the scores of rows without choices."""
        lists = c.is_match(c.column(batch, "target"), r"\A\s*\[")
        return scored_by(batch, lists, LiteralScorer().score, _score_numbers)


def _score_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    scores = NumberScorer().score(batch)
    targets = c.column(batch, "target")
    equal = c.is_equal(c.column(scores, "extracted"), whole_number(targets))
    rows = zip(
        equal.to_pylist(),
        c.column(scores, "extracted").to_pylist(),
        targets.to_pylist(),
        strict=True,
    )
    values = [
        float(same or (value is not None and target is not None and is_number(value, target)))
        for same, value, target in rows
    ]
    return with_values(scores, values)


def is_number(value: str, target: str) -> bool:
    """Return True if a number is the target, once it has as many decimals; a whole number is cut, not rounded."""
    if max(len(value), len(target)) > _LONGEST_NUMBER:
        return False
    try:
        number, expected = Fraction(value), Fraction(target)
    except ValueError:
        return False
    _, point, decimals = target.partition(".")
    if not point:
        return int(number) == expected
    return round(float(number), len(decimals)) == float(expected)


scorer = MathVistaScorer
