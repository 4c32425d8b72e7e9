r"""Mathematical problems whose answer is asked for in `\boxed{}`: competitions and MATH-500."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import RowError, plain_text, text_target
from regrade.records import Sample
from regrade.scorers.programs.task import doc_of
from regrade.settings import SamplingParams, ScorerName

INSTRUCTION = "Solve this problem. Show your reasoning, and give only the final answer inside \\boxed{{}} at the end."
REASONING = SamplingParams(temperature=0.6, top_p=0.95, max_tokens=32_768)
"""Sampling of DeepSeek-R1's evaluation (arXiv 2501.12948, section 3), which most reports of these benchmarks repeat."""


class BoxedProblems(PublishedBenchmark):
    """Problems with the columns `problem` and `answer`, asked in a chat without worked examples."""

    scorers: tuple[ScorerName, ...] = ("math",)
    columns: tuple[str, ...] = ("problem", "answer")
    question_column = "problem"
    opening_template = INSTRUCTION
    question_template = "{question}"
    completion_template = "Problem: {question}\nAnswer:"
    sampling = REASONING
    completion_sampling: Mapping[str, Any] = {"stop": ("\nProblem:",)}

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a problem with its answer as the target."""
        problem = plain_text(index, "the problem", row[self.question_column])
        subset = self.subset(index, row)
        target = self.target(index, row["answer"])
        return Question(content=problem, target=target, fields=row, subset=subset)

    def target(self, index: int, answer: object) -> str:
        """Return the target of an answer of the dataset.

        Raises:
            RowError: If the answer cannot be used.
        """
        target = text_target(only_element(answer))
        if target is None:
            raise RowError(index, f"the answer is {answer!r}; expected a text or number")
        return target.strip()

    def answer(self, sample: Sample) -> str:
        """Return the target in a box."""
        return f"\\boxed{{{sample.target}}}"

    def parts(self, sample: Sample) -> Mapping[str, Any]:
        """Return the problem as Inspect names it."""
        return {"prompt": sample.fields[self.question_column].strip()}


class IntegerProblems(BoxedProblems):
    """Problems whose answer is a whole number from 0 to 999, as in the AIME."""

    scorers: tuple[ScorerName, ...] = ("math", "number")
    repeats = 16

    def target(self, index: int, answer: object) -> str:
        """Return the number without leading zeros: `033` is 33."""
        text = super().target(index, answer).removesuffix(".0")
        if not re.fullmatch(r"0*[0-9]{1,3}", text):
            raise RowError(
                index, f"the answer is {answer!r}; expected a whole number from 0 to 999"
            )
        return text.lstrip("0") or "0"


def only_element(value: object) -> object:
    """Return the element of a list with one element; other values as they are."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


# Programming questions: their texts and tests, checked.


def text_of(index: int, row: Mapping[str, Any], column: str) -> str:
    """Return the text in a column.

    Raises:
        RowError: If it is not a text, or blank.
    """
    return plain_text(index, f"column '{column}'", row[column])


def checked_doc(index: int, **task: object) -> Mapping[str, Any]:
    """Return the task of a question for `Sample.doc`; its fields are those of `regrade.scorers.programs.task.Task`.

    Raises:
        RowError: If it is not a task.
    """
    try:
        return doc_of(**task)
    except (ValidationError, TypeError, ValueError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise RowError(index, f"its tests cannot be used: {problem}") from error
