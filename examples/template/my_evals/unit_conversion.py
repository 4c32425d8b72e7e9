"""Conversion of units: a benchmark with questions in a file of this package."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from regrade.benchmarks.questions.reading import Source
from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.sources import LocalSource
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import RowError
from regrade.records import Sample
from regrade.settings import Method, PromptFormat, SamplingParams

INSTRUCTION = "Convert the unit. End with a line of the form `Answer: <number> <unit>`."


class UnitConversion(PublishedBenchmark):
    """Questions that ask for a number and a unit."""

    name = "unit_conversion"
    version = 1
    """Raise it when prompts, right answers or questions change."""
    description = "Conversion of everyday units."
    paper = ""
    method: Method = "generate"
    scorers = ("quantity",)
    hub_dataset, split = "my-evals", "test"
    default_format: PromptFormat = "chat"
    columns = ("question", "answer", "quantity")
    opening_template = INSTRUCTION
    question_template = "{question}"
    sampling = SamplingParams(temperature=0.0, max_tokens=256)

    def open_source(self, path: str | None) -> Source:
        """Return the questions of this package, or of a file given with `--source`."""
        file = path or str(files("my_evals") / "questions.jsonl")
        return LocalSource(self.name, file, self.split)

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Question]:
        """Return the rows as questions."""
        return [self._question(index, row) for index, row in enumerate(rows)]

    def question(self, sample: Sample) -> str:
        """Return the question as it appears in the prompt."""
        return self.question_template.format(question=sample.fields["question"])

    def answer(self, sample: Sample) -> str:
        """Return the answer of a worked example."""
        return f"Answer: {sample.target}"

    def _question(self, index: int, row: Mapping[str, Any]) -> Question:
        if not isinstance(row["question"], str) or not row["question"].strip():
            raise RowError(index, f"the question is {row['question']!r}; expected a text")
        return Question(
            content=row["question"], target=row["answer"], fields=row, subset=row["quantity"]
        )
