"""ChartQA: 2,500 questions about charts, half of them written by people, and half made from descriptions.

Paper:    Masry et al. 2022, ChartQA: A Benchmark for Question Answering about Charts with Visual and Logical Reasoning,
          https://arxiv.org/abs/2203.10244
Dataset:  https://huggingface.co/datasets/HuggingFaceM4/ChartQA (split `test`). The newest commit is read, and recorded
Licence:  GPL-3.0

The prompt is that of lmms-eval 0.7.3 (task `chartqa`), character by character (tests/scorers/test_peers.py). The subsets are the
halves; the mean over all is the mean of the two, as papers report it.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.targets import RowError
from regrade.benchmarks.questions.visual import ImageQuestions
from regrade.settings import ScorerName

_WRITERS: Mapping[object, str] = {0: "human", 1: "machine", "human": "human", "machine": "machine"}
"""Author of a question, a person or a program, by the number of the class in the dataset, or its name."""


class ChartQa(ImageQuestions):
    """ChartQA in a chat."""

    name = "chartqa"
    description = "Questions about charts, with numbers that may be 5 % off."
    paper = "https://arxiv.org/abs/2203.10244"
    scorers: tuple[ScorerName, ...] = ("relaxed_accuracy",)
    hub_dataset, split = "HuggingFaceM4/ChartQA", "test"
    columns = ("image", "query", "label", "human_or_machine")
    question_column, answers_column = "query", "label"
    question_template = "{question}\nAnswer the question with a single word."

    def subset(self, index: int, row: Mapping[str, Any]) -> str:
        """Return who wrote the question."""
        writer = row["human_or_machine"]
        if writer not in _WRITERS:
            raise RowError(
                index, f"human_or_machine is {writer!r}; expected 0 (human) or 1 (machine)"
            )
        return _WRITERS[writer]


benchmark = ChartQa
