"""MathVista: 1,000 mathematical questions about figures, diagrams and photographs (`testmini`).

Paper:    Lu et al. 2024, MathVista: Evaluating Mathematical Reasoning of Foundation Models in Visual Contexts,
          https://arxiv.org/abs/2310.02255
Dataset:  https://huggingface.co/datasets/AI4Math/MathVista (split `testmini`). The newest commit is read, and recorded
Licence:  CC-BY-SA-4.0 for what the authors wrote; the images keep the licences of the 31 datasets that they come from

The prompt is the dataset's column `query`, which the authors' code sends: a hint at the form of the answer, the question and its
choices. Results are also shown for each task of the dataset. The authors let GPT extract the answer; the scorer `mathvista` reads it
without a judge, and says what differs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.targets import LETTERS, RowError, number_target, plain_text
from regrade.benchmarks.questions.visual import ImageQuestions, listed_texts
from regrade.settings import SamplingParams, ScorerName

_ANSWERS = ("integer", "float", "list")


class MathVista(ImageQuestions):
    """MathVista's `testmini` in a chat."""

    name = "mathvista"
    description = "Mathematical questions about figures, with letters, numbers or lists as answers."
    paper = "https://arxiv.org/abs/2310.02255"
    scorers: tuple[ScorerName, ...] = ("mathvista",)
    hub_dataset, split = "AI4Math/MathVista", "testmini"
    image_columns = ("decoded_image",)
    columns = (
        *("decoded_image", "query", "choices", "precision", "answer"),
        *("question_type", "answer_type", "metadata"),
    )
    question_template = "{question}"
    sampling = SamplingParams(temperature=0.0, max_tokens=4096)

    def text(self, index: int, row: Mapping[str, Any]) -> str:
        """Return the authors' prompt."""
        return plain_text(index, "the query", row["query"])

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the choices of a question of the type `multi_choice`."""
        kind = row["question_type"]
        if kind == "free_form":
            return ()
        if kind != "multi_choice":
            raise RowError(index, f"question_type is {kind!r}; expected multi_choice or free_form")
        return listed_texts(index, "choices", row["choices"])

    def target(self, index: int, row: Mapping[str, Any], choices: Sequence[str]) -> str:
        """Return the letter, the list, or the number with as many decimals as `precision` says."""
        answer, kind = row["answer"], row["answer_type"]
        if choices:
            if answer not in choices:
                raise RowError(index, f"the answer is {answer!r}, which is none of the choices")
            return LETTERS[choices.index(answer)]
        if kind == "list" and isinstance(answer, str) and answer.lstrip().startswith("["):
            return answer.strip()
        number = number_target(answer)
        if kind not in _ANSWERS or kind == "list" or number is None:
            raise RowError(
                index,
                f"the answer is {answer!r} with answer_type {kind!r}; expected a number or a list, and one of {', '.join(_ANSWERS)}",
            )
        if kind == "integer":
            return number
        precision = row["precision"]
        if not isinstance(precision, int | float) or not 0 <= precision <= 9:
            raise RowError(index, f"the precision is {precision!r}; expected a number of decimals")
        return f"{float(number):.{int(precision)}f}"

    def subset(self, index: int, row: Mapping[str, Any]) -> str:
        """Return the task."""
        metadata = row["metadata"]
        task = metadata.get("task") if isinstance(metadata, Mapping) else None
        if not isinstance(task, str):
            raise RowError(index, f"the metadata is {str(metadata)[:100]!r}; expected a `task`")
        return task


benchmark = MathVista
