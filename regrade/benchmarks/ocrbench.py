"""OCRBench: 1,000 questions about texts in images, of ten kinds.

Paper:    Liu et al. 2023, OCRBench: On the Hidden Mystery of OCR in Large Multimodal Models, https://arxiv.org/abs/2305.07895
Dataset:  https://huggingface.co/datasets/echo840/OCRBench (split `test`). The newest commit is read, and recorded
Licence:  not stated; the images come from 29 datasets with licences of their own

The question is sent as it is, as in the authors' code and lmms-eval 0.7.3 (tests/scorers/test_peers.py). The published score is the
number of right answers, from 0 to 1,000: the share of right answers times 1,000.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.visual import ImageQuestions
from regrade.scorers.ocrbench import FORMULAS
from regrade.settings import ScorerName

KINDS = {
    "Text Recognition": (
        *("Regular Text Recognition", "Irregular Text Recognition", "Artistic Text Recognition"),
        *("Handwriting Recognition", "Digit String Recognition", "Non-Semantic Text Recognition"),
    ),
    "Scene Text-centric VQA": ("Scene Text-centric VQA",),
    "Doc-oriented VQA": ("Doc-oriented VQA",),
    "Key Information Extraction": ("Key Information Extraction",),
    FORMULAS: (FORMULAS,),
}
"""Kinds of questions, by the rows of the paper's table."""


class OcrBench(ImageQuestions):
    """OCRBench in a chat."""

    name = "ocrbench"
    images_stay = True  # others own their rights: no copy is stored
    description = "Questions about texts in images; an answer must contain the right text."
    paper = "https://arxiv.org/abs/2305.07895"
    scorers: tuple[ScorerName, ...] = ("ocrbench",)
    hub_dataset, split = "echo840/OCRBench", "test"
    columns = ("image", "question", "answer", "question_type")
    subset_column = "question_type"
    groups = KINDS
    question_template = "{question}"

    def text(self, index: int, row: Mapping[str, Any]) -> str:
        """Return the question."""
        return super().text(index, row).strip()


benchmark = OcrBench
