"""Humanity's Last Exam, the questions without images: the hardest exam questions of many fields, for a judge model to grade.

Paper:    Phan et al. 2025, Humanity's Last Exam, https://arxiv.org/abs/2501.14249
Dataset:  https://huggingface.co/datasets/cais/hle (gated: accept its terms, and set HF_TOKEN); 2,158 of its 2,500 questions
          have no image
Revision: the newest commit, which becomes part of the specification
Licence:  MIT; the authors ask that questions are not published

Asked for are an explanation, the answer and how sure the model is of it. `regrade judge` grades the stored answers with the
rubric `correct`.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import needed_text, question_text, text_target
from regrade.records import Sample
from regrade.scorers import JUDGE
from regrade.settings import SamplingParams, ScorerName

INSTRUCTION = (
    "Answer the following question. Explain how you arrive at your answer, then give the answer on a line that begins with "
    "`Answer:`, and on a last line that begins with `Confidence:` say how sure you are of it, from 0% to 100%."
)


class Hle(PublishedBenchmark):
    """HLE without images as chat: an instruction, then the question."""

    name = "hle"
    description = (
        "Expert questions of many fields, those without images, for a judge model to grade."
    )
    paper = "https://arxiv.org/abs/2501.14249"
    scorers: tuple[ScorerName, ...] = (JUDGE,)
    rubric = "correct"
    hub_dataset, split = "cais/hle", "test"
    withheld = True
    columns = ("question", "answer", "answer_type", "image", "category")
    opening_template = INSTRUCTION
    question_template = "{question}"
    completion_template = "{question}\n\nExplanation:"
    sampling = SamplingParams(temperature=0.0, max_tokens=8192)
    """Greedy decoding with 8,192 tokens, as in the authors' code."""

    def reason_left_out(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to leave a question out: it has an image."""
        return "they have an image" if row["image"] else None

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a question with its field as subset."""
        question = question_text(index, row["question"])
        target = needed_text(index, "the answer", row["answer"])
        return Question(
            content=question,
            target=target,
            fields={name: row[name] for name in ("question", "answer_type")},
            subset=text_target(row["category"]) or "",
        )

    def answer(self, sample: Sample) -> str:
        """Return the target."""
        return f"Answer: {sample.target}"


benchmark = Hle
