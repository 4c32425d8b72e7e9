"""Scorer that compares the whole answer with the target."""

import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.wording import comparable
from regrade.settings import ScorerName

_KEPT = 200
"""Longest extracted answer stored in the scores, in characters; the comparison uses the whole answer."""


class ExactScorer:
    """Compares the whole answer with the target, ignoring case, white space, quotes, emphasis and a final period."""

    name: ScorerName = "exact"
    version = 2
    description = (
        "The whole answer, without case, white space around and repeated within, one trailing period, and "
        "quotes and Markdown emphasis around it. It must equal the target, treated the same way."
    )
    unparsed = "An answer of white space only."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        answers = answer_part(batch)
        words = comparable(answers.text)
        words = c.choose(c.is_equal(words, ""), None, words)
        correct = c.is_equal(words, comparable(c.column(batch, "target")))
        return score_rows(batch, Reading(c.shortened(words, _KEPT), correct, answers.trimmed()))


scorer = ExactScorer
