"""MMLU-Pro: 12,032 multiple choice questions of 14 categories with 3 to 10 choices, after worked examples with reasoning.

Paper:    Wang et al. 2024, MMLU-Pro: A More Robust and Challenging Multi-Task Language Understanding Benchmark,
          https://arxiv.org/abs/2406.01574
Dataset:  https://huggingface.co/datasets/TIGER-Lab/MMLU-Pro (`test`, `validation`). The newest commit is read, and recorded
Licence:  MIT

The worked examples are the 5 validation questions of the same category, with their reasoning. An answer from which no letter can be
read is unparsed; the authors' code draws a letter at random instead. `choice_letter_first` reads the first letter, as that code does.
"""

import re
from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.multiple_choice import ChoiceQuestions
from regrade.benchmarks.questions.targets import LETTERS, RowError, choice_place, choice_texts
from regrade.records import Sample
from regrade.settings import ScorerName

INSTRUCTION = (
    "Answer multiple choice questions about {subject}. Reason step by step, then end with a sentence of the form "
    "`The answer is (X).`, where X is the letter of the right choice."
)
_LEAD = re.compile(r"\A\s*A:\s*")
_EMPTY = "N/A"
"""Choice that fills questions up to 10 in older versions of the dataset."""


class MmluPro(ChoiceQuestions):
    """MMLU-Pro with 5 worked examples of the category."""

    name = "mmlu_pro"
    description = (
        "Questions of 14 categories with up to 10 choices, after worked examples with reasoning."
    )
    paper = "https://arxiv.org/abs/2406.01574"
    scorers: tuple[ScorerName, ...] = ("choice_letter", "choice_letter_first")
    hub_dataset, split, shots_split = "TIGER-Lab/MMLU-Pro", "test", "validation"
    shots_by_subset = True
    default_n_shots = 5
    columns = ("question", "options", "answer", "answer_index", "category")
    subset_column = "category"
    opening_template = completion_opening = INSTRUCTION

    @property
    def shot_columns(self) -> tuple[str, ...]:
        """Columns of questions, and the reasoning of worked examples."""
        return (*self.columns, "cot_content")

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[list[str], int]:
        """Return the choices that are not empty, and the place of the right one."""
        options = choice_texts(index, row["options"])
        right = choice_place(index, "answer_index", row["answer_index"], len(options))
        if row["answer"] not in (None, LETTERS[right]):
            raise RowError(
                index,
                f"the answer is {row['answer']!r}, but answer_index {right} is {LETTERS[right]}",
            )
        kept = [
            place for place, text in enumerate(options) if text.strip() != _EMPTY or place == right
        ]
        return [options[place] for place in kept], kept.index(right)

    def answer(self, sample: Sample) -> str:
        """Return the reasoning of a worked example, which ends with `The answer is (X).`."""
        reasoning = sample.fields["cot_content"]
        if not isinstance(reasoning, str) or not reasoning.strip():
            raise RowError(
                sample.index, f"cot_content is {reasoning!r}; expected the reasoning of an example"
            )
        return _LEAD.sub("", reasoning).strip()


benchmark = MmluPro
