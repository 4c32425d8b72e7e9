"""Multiple choice questions with 2 to 10 choices, asked in a chat for a last line `Answer: X`."""

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import LETTERS, listed, question_text
from regrade.records import Sample
from regrade.settings import SamplingParams, ScorerName

INSTRUCTION = (
    "Choose the right answer to this multiple choice question. Reason as long as you need, then end with a line of the form "
    "`Answer: X`, where X is the letter of the right choice."
)


class ChoiceQuestions(PublishedBenchmark):
    """Questions with choices. A subclass reads the choices and the right one from a row."""

    scorers: tuple[ScorerName, ...] = ("choice_letter",)
    opening_template = INSTRUCTION
    completion_opening = "The following are multiple choice questions, with their answers."
    question_template = "{question}\n{choices}"
    completion_template = "Question: {question}\n{choices}\nAnswer:"
    sampling = SamplingParams(temperature=0.0, max_tokens=4096)
    completion_sampling: Mapping[str, Any] = {"stop": ("\nQuestion:",)}

    @abstractmethod
    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[Sequence[str], int]:
        """Return the choices of a row and the position of the right one, from 0.

        Raises:
            RowError: If the benchmark cannot use the row.
        """

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a question whose target is the letter of the right choice."""
        question = question_text(index, row[self.question_column])
        choices, right = self.choices(index, row)
        return Question(
            content=question,
            target=LETTERS[right],
            fields=row,
            subset=self.subset(index, row),
            choices=tuple(choice.strip() for choice in choices),
        )

    def question(self, sample: Sample) -> str:
        """Return the question as it appears in the prompt."""
        return self.question_template.format(
            question=sample.fields[self.question_column].strip(), choices=listed(sample.choices)
        )

    def answer(self, sample: Sample) -> str:
        """Return the last line that the instruction asks for; for completion the letter."""
        return f"Answer: {sample.target}" if self.format == "chat" else sample.target

    def parts(self, sample: Sample) -> Mapping[str, Any]:
        """Return question, choices and their letters as Inspect writes them."""
        letters = LETTERS[: len(sample.choices)]
        listed_choices = (
            f"{letter}) {choice}" for letter, choice in zip(letters, sample.choices, strict=True)
        )
        return {
            "question": sample.fields[self.question_column].strip(),
            "choices": "\n".join(listed_choices),
            "letters": ",".join(letters),
        }


def shuffled(question: str, choices: Sequence[str]) -> tuple[list[str], int]:
    """Return choices in an order that the question alone decides, and the new position of the first.

    The order is that of the sha256 of question and choice: the same on every machine, for every limit and repeat.
    """

    def key(choice: str) -> str:
        return hashlib.sha256(f"{question}\0{choice}".encode()).hexdigest()

    ordered = sorted(choices, key=key)
    return ordered, ordered.index(choices[0])
