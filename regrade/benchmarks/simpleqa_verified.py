"""SimpleQA Verified: short questions about facts, which a judge model grades.

Paper:    Haas et al. 2025, SimpleQA Verified: A Reliable Factuality Benchmark to Measure Parametric Knowledge,
          https://arxiv.org/abs/2509.07968
Dataset:  https://huggingface.co/datasets/google/simpleqa-verified; 1,000 questions
Revision: the newest commit, which becomes part of the specification
Licence:  MIT

The question is asked as it is. `regrade judge` grades the stored answers as correct, incorrect or not attempted (rubric
`correct`).
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import needed_text, question_text, text_target
from regrade.scorers import JUDGE
from regrade.settings import SamplingParams, ScorerName


class SimpleQaVerified(PublishedBenchmark):
    """SimpleQA Verified as chat: the question alone."""

    name = "simpleqa_verified"
    description = "1,000 short questions about facts, for a judge model to grade."
    paper = "https://arxiv.org/abs/2509.07968"
    scorers: tuple[ScorerName, ...] = (JUDGE,)
    rubric = "correct"
    question_column = "problem"
    hub_dataset, split = "google/simpleqa-verified", "eval"
    columns = ("problem", "answer", "topic")
    question_template = "{question}"
    completion_template = "Question: {question}\nAnswer:"
    sampling = SamplingParams(temperature=0.0, max_tokens=1024)
    """Greedy decoding, with room for a sentence or two."""
    completion_sampling: Mapping[str, Any] = {"stop": ("\nQuestion:",)}

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a question whose target is the answer as text, with its topic as subset."""
        problem = question_text(index, row["problem"])
        target = needed_text(index, "the answer", row["answer"])
        return Question(
            content=problem, target=target, fields=row, subset=text_target(row["topic"]) or ""
        )


benchmark = SimpleQaVerified
