"""Scorer of benchmarks that mix multiple choice with other questions: letters for the one, short texts for the other."""

import pyarrow as pa

from regrade.scorers.base import TargetKind
from regrade.scorers.choice_letter import ChoiceLetterScorer
from regrade.scorers.extraction.composed import has_choices, scored_by
from regrade.scorers.text import TextScorer
from regrade.settings import ScorerName


class ChoiceOrTextScorer:
    """Scores questions with choices as `choice_letter` does, and others as `text`."""

    name: ScorerName = "choice_or_text"
    version = 2
    description = (
        "Of a question with choices the letter, as `choice_letter` reads it; else as `text`."
    )
    unparsed = "As `choice_letter` and `text`."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("target", "choices", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        return scored_by(batch, has_choices(batch), ChoiceLetterScorer().score, self.score_open)

    def score_open(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the scores of rows without choices."""
        return TextScorer().score(batch)


scorer = ChoiceOrTextScorer
