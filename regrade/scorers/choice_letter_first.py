"""Scorer that reads the letter of a choice from the text of an answer; of several statements the first counts."""

from regrade.scorers.choice_letter import ChoiceLetterScorer
from regrade.settings import ScorerName


class ChoiceLetterFirstScorer(ChoiceLetterScorer):
    """Reads the letter like `ChoiceLetterScorer`, from the first statement instead of the last."""

    name: ScorerName = "choice_letter_first"
    version = 3
    description = (
        "As `choice_letter`, but of several statements, and of several letters in a statement, the first counts, as in the "
        "original code of MMLU-Pro."
    )
    unparsed = "As `choice_letter`, except several letters."

    def __init__(self) -> None:
        super().__init__(statement="first")


scorer = ChoiceLetterFirstScorer
