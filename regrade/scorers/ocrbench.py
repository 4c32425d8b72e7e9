"""Scorer of texts in images, by the rule of OCRBench: an answer is right if it contains an accepted text.

Liu et al. 2023, arXiv 2305.07895, and https://github.com/Yuliang-Liu/MultimodalOCR (`OCRBench/example.py`).
"""

from functools import cache

import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, check_targets, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.accepted import accepted_texts
from regrade.settings import ScorerName

FORMULAS = "Handwritten Mathematical Expression Recognition"
"""Subset whose answers are compared with case and without spaces."""
_KEPT = 200
"""Longest extracted answer stored in the scores, in characters; the comparison uses the whole answer."""


class OcrBenchScorer:
    """Looks for an accepted text in the whole answer."""

    name: ScorerName = "ocrbench"
    version = 1
    description = (
        "The whole answer, which must contain one of the accepted texts, without case, and with line breaks as spaces; in the subset "
        f"`{FORMULAS}` with case, and without spaces."
    )
    unparsed = "An answer of white space only."
    targets: TargetKind = "texts"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        targets = c.column(batch, "target")
        check_targets(self.name, "a text", batch, c.is_match(targets, r"\S"))
        answers = answer_part(batch).trimmed()
        answers = answers.where(answers.matches(r"\S"))
        holds = cache(contains)
        rows = zip(
            answers.text.to_pylist(),
            targets.to_pylist(),
            c.column(batch, "subset").to_pylist(),
            strict=True,
        )
        right = [
            answer is not None and target is not None and holds(answer, target, subset == FORMULAS)
            for answer, target, subset in rows
        ]
        kept = c.shortened(answers.text, _KEPT)
        return score_rows(batch, Reading(kept, pa.array(right, pa.bool_()), answers))


def contains(answer: str, target: str, is_formula: bool = False) -> bool:
    """Return True if an answer contains one of the accepted texts of a target."""

    def plain(text: str) -> str:
        if is_formula:
            return text.strip().replace("\n", " ").replace(" ", "")
        return text.lower().strip().replace("\n", " ")

    found = plain(answer)
    return any(plain(accepted) in found for accepted in accepted_texts(target))


scorer = OcrBenchScorer
