"""GPQA Diamond: 198 multiple choice questions of biology, chemistry and physics, written by experts.

Paper:    Rein et al. 2023, GPQA: A Graduate-Level Google-Proof Q&A Benchmark, https://arxiv.org/abs/2311.12022
Dataset:  https://huggingface.co/datasets/Idavidrein/gpqa (config `gpqa_diamond`, split `train`), gated: its conditions have to be
          accepted on its page. The newest commit is read, and recorded
Licence:  CC-BY-4.0; its authors ask not to publish the questions, so that no model is trained on them. The answer
          repository does not hold them (docs/benchmarks.md)

The right choice stands first in the dataset; the order of the choices is shuffled by a hash of the question, and is the same for all
answers to it. Eight answers to each question, because a single one has a standard error of 3.5 points; OpenAI's simple-evals
shuffles the choices anew for each of its answers.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.multiple_choice import ChoiceQuestions, shuffled
from regrade.benchmarks.questions.problems import REASONING
from regrade.benchmarks.questions.targets import needed_text

CHOICES = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


class GpqaDiamond(ChoiceQuestions):
    """GPQA Diamond, asked 8 times, with shuffled choices."""

    name = "gpqa_diamond"
    description = "Questions of natural science by experts, with the letter read from the text."
    paper = "https://arxiv.org/abs/2311.12022"
    hub_dataset, config, split = "Idavidrein/gpqa", "gpqa_diamond", "train"
    columns = ("Question", "High-level domain", *CHOICES)
    question_column = "Question"
    subset_column = "High-level domain"
    repeats = 8
    withheld = True
    sampling = REASONING

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[list[str], int]:
        """Return the shuffled choices and the place of the right one."""
        texts = [needed_text(index, f"'{name}'", row[name]).strip() for name in CHOICES]
        return shuffled(row["Question"].strip(), texts)


benchmark = GpqaDiamond
