"""SuperGPQA: 26,529 multiple choice questions of 285 graduate fields in 13 disciplines, most with 10 choices.

Paper:    M-A-P 2025, SuperGPQA: Scaling LLM Evaluation across 285 Graduate Disciplines, https://arxiv.org/abs/2502.14739
Dataset:  https://huggingface.co/datasets/m-a-p/SuperGPQA (split `train`). The newest commit is read, and recorded
Licence:  ODC-BY

Without worked examples. Results are also shown for each discipline.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.multiple_choice import ChoiceQuestions
from regrade.benchmarks.questions.targets import LETTERS, choice_letter, choice_texts


class SuperGpqa(ChoiceQuestions):
    """SuperGPQA in a chat, without worked examples."""

    name = "supergpqa"
    description = (
        "Questions of 13 disciplines with up to 10 choices, with the letter read from the text."
    )
    paper = "https://arxiv.org/abs/2502.14739"
    hub_dataset, split = "m-a-p/SuperGPQA", "train"
    columns = ("question", "options", "answer_letter", "discipline")
    subset_column = "discipline"

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
        """Return the choices and the place of the right one."""
        options = choice_texts(index, row["options"])
        letter = choice_letter(index, "answer_letter", row["answer_letter"], len(options))
        return options, LETTERS.index(letter)


benchmark = SuperGpqa
