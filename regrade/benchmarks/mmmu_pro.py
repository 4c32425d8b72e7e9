"""MMMU-Pro: 1,730 questions about images with up to 10 choices, once as text with images, and once as a picture of the question.

Paper:    Yue et al. 2024, MMMU-Pro: A More Robust Multi-discipline Multimodal Understanding Benchmark,
          https://arxiv.org/abs/2409.02813
Dataset:  https://huggingface.co/datasets/MMMU/MMMU_Pro (configs `standard (10 options)` and `vision`; split `test`). The newest
          commit is read, and recorded
Licence:  Apache-2.0; the images come from textbooks, lectures and the web, and belong to their owners

The subsets are the two settings; both have the same number of questions, so that the mean over all is the mean of the two, as the
paper reports it. Prompts are those with reasoning of lmms-eval 0.7.3 (tasks `mmmu_pro_standard_cot`, `mmmu_pro_vision_cot`), which
repeat the authors', character by character (tests/scorers/test_peers.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.configs import SUBSET
from regrade.benchmarks.questions.targets import choice_letter
from regrade.benchmarks.questions.visual import (
    NUMBERED,
    ImageQuestions,
    listed_texts,
    question_with_images,
    with_images,
)
from regrade.records import Sample
from regrade.settings import SamplingParams, ScorerName

STANDARD, VISION = "standard (10 options)", "vision"
_FORM = (
    "The last line of your response should be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
    "options. Think step by step before answering."
)
STANDARD_TEMPLATE = (
    f"{{question}}\n{{choices}}\n\nAnswer the following multiple choice question. {_FORM}"
)
VISION_TEMPLATE = f"Write out the multiple-choice question in the image and then solve it. {_FORM}"


class MmmuPro(ImageQuestions):
    """MMMU-Pro in a chat, with reasoning."""

    name = "mmmu_pro"
    images_stay = True  # others own their rights: no copy is stored
    description = "Questions about images with up to 10 choices, as text and as a picture."
    paper = "https://arxiv.org/abs/2409.02813"
    scorers: tuple[ScorerName, ...] = ("choice_letter",)
    hub_dataset, split = "MMMU/MMMU_Pro", "test"
    configs: Mapping[str, str] = {STANDARD: STANDARD, VISION: VISION}
    lacking: Mapping[str, Sequence[str]] = {STANDARD: ("image",), VISION: ("question", *NUMBERED)}
    image_columns = ("image", *NUMBERED)
    columns = ("question", "options", "answer", *image_columns, SUBSET)
    subset_column = SUBSET
    sampling = SamplingParams(temperature=0.0, max_tokens=4096)
    question_template = f"{STANDARD_TEMPLATE}\n\n{VISION_TEMPLATE}"

    def form(self, sample: Sample) -> str:
        """Return the template of the question's setting."""
        return VISION_TEMPLATE if sample.subset == VISION else STANDARD_TEMPLATE

    def text(self, index: int, row: Mapping[str, Any]) -> str:
        """Return the question, with the marks of the images that it names; "" if it is a picture."""
        return "" if row[SUBSET] == VISION else question_with_images(index, row)

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the choices, with the marks of the images that they name; of a picture as they stand in the column."""
        options = listed_texts(index, "options", row["options"])
        if row[SUBSET] == VISION:
            return options
        return tuple(with_images(index, text, row) for text in options)

    def target(self, index: int, row: Mapping[str, Any], choices: Sequence[str]) -> str:
        """Return the letter of the right choice."""
        return choice_letter(index, "the answer", row["answer"], len(choices))


benchmark = MmmuPro
