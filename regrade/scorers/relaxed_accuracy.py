"""Scorer of short answers of which a number may be 5 % off, as for ChartQA.

Masry et al. 2022, arXiv 2203.10244, section 5.1, by the code that most evaluations use (`relaxed_correctness` of Qwen-VL and
lmms-eval).
"""

from functools import cache

import pyarrow as pa

from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.accepted import accepted_texts
from regrade.scorers.extraction.composed import with_values
from regrade.scorers.text import TextScorer
from regrade.settings import ScorerName

TOLERANCE = 0.05
"""Largest difference from the target, as a share of it."""
_LONGEST_NUMBER = 100
"""Longest text that is read as a number, in characters."""
_MARKS = " \t\r\n*_`\"'\u201c\u201d\u2018\u2019"
"""Quotes and emphasis around an answer, which make no difference."""
_END_MARKS = _MARKS + ".,;!?$\\"
"""The same at the end, where a sentence may end."""


class RelaxedAccuracyScorer(TextScorer):
    """Reads a short text as `TextScorer` does, and accepts a number that is close."""

    name: ScorerName = "relaxed_accuracy"
    version = 2
    description = (
        "As `text` reads. A number may differ from the target by 5 % of it, where `12%` is 0.12; if answer or target is no number, or "
        "the target is 0, they must be equal without case. Quotes, emphasis and a final period do not count."
    )

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        scores = super().score(batch)
        grade = cache(_grade)
        pairs = zip(
            c.column(scores, "extracted").to_pylist(),
            c.column(batch, "target").to_pylist(),
            strict=True,
        )
        return with_values(scores, [grade(answer, target) for answer, target in pairs])


def is_relaxed_match(answer: str, target: str) -> bool:
    """Return True if two numbers are close, or two texts equal without case, as `relaxed_correctness` does."""
    number, expected = _number(answer), _number(target)
    if number is not None and expected:
        return abs(number - expected) / abs(expected) <= TOLERANCE
    return answer.lower() == target.lower()


def _grade(answer: str | None, target: str | None) -> float:
    if answer is None or target is None:
        return 0.0
    return float(
        any(
            is_relaxed_match(answer, accepted) or is_relaxed_match(_plain(answer), _plain(accepted))
            for accepted in accepted_texts(target)
        )
    )


def _plain(text: str) -> str:
    r"""Return a text without marks around it, with the signs that Python reads: of `\%` in a box, and of a typographic minus."""
    return text.lstrip(_MARKS).rstrip(_END_MARKS).replace("\\%", "%").replace("\u2212", "-")


def _number(text: str) -> float | None:
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


scorer = RelaxedAccuracyScorer
