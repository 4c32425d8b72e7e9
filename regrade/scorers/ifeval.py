"""Scorer of IFEval: an answer is right if it follows all instructions, judged strictly."""

from regrade.scorers.instructions.scorer import InstructionsScorer, Mode
from regrade.settings import ScorerName


class IfEvalScorer(InstructionsScorer):
    """Prompt-level accuracy, strict; the other three numbers of the paper are metrics."""

    name: ScorerName = "ifeval"
    description = (
        "The instructions that the answer follows, by the checkers of `if-verifiable`. Right if it follows all of them as it "
        "stands (prompt-level, strict)."
    )
    headline: Mode = "strict"
    resources = ("tokenizers/punkt_tab",)


scorer = IfEvalScorer
