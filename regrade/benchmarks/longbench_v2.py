"""LongBench v2: 503 multiple choice questions about texts of 8 thousand to 2 million words.

Paper:    Bai et al. 2024, LongBench v2: Towards Deeper Understanding and Reasoning on Realistic Long-context Multitasks,
          https://arxiv.org/abs/2412.15204
Dataset:  https://huggingface.co/datasets/THUDM/LongBench-v2 (split `train`). The newest commit is read, and recorded
Licence:  Apache-2.0

The prompt without reasoning of the authors' code (https://github.com/THUDM/LongBench, `prompts/0shot.txt`). A prompt that does not
fit is cut in the middle, as there: the tokens of its two ends are kept. The authors cut the message, and here the whole prompt
with the chat template's tokens is cut. Results are also shown for each length, as in the paper.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.multiple_choice import ChoiceQuestions
from regrade.benchmarks.questions.targets import choice_letter, needed_text, plain_text
from regrade.records import Sample
from regrade.settings import Cut, SamplingParams

TEMPLATE = """Please read the following text and answer the question below.

<text>
{context}
</text>

What is the correct answer to this question: {question}
Choices:
(A) {A}
(B) {B}
(C) {C}
(D) {D}

Format your response as follows: "The correct answer is (insert answer here)"."""
_LETTERS = "ABCD"


class LongBenchV2(ChoiceQuestions):
    """LongBench v2 in a chat, without reasoning before the answer."""

    name = "longbench_v2"
    description = "Questions about long texts with 4 choices, with the letter read from the text."
    paper = "https://arxiv.org/abs/2412.15204"
    hub_dataset, split = "THUDM/LongBench-v2", "train"
    columns = (
        *("question", "context", "length", "answer"),
        *(f"choice_{letter}" for letter in _LETTERS),
    )
    subset_column = "length"
    opening_template = ""
    question_template = TEMPLATE
    cut: Cut | None = "middle"
    only_chat = True
    sampling = SamplingParams(temperature=0.1, max_tokens=128)

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[list[str], int]:
        """Return the choices and the place of the right one."""
        names = [f"choice_{letter}" for letter in _LETTERS]
        texts = [needed_text(index, f"'{name}'", row[name]) for name in names]
        letter = choice_letter(index, "the answer", row["answer"], len(_LETTERS))
        plain_text(index, "the context", row["context"])
        return texts, _LETTERS.index(letter)

    def question(self, sample: Sample) -> str:
        """Return the text, the question and its choices as they appear in the prompt."""
        return self.question_template.format(
            context=sample.fields["context"].strip(),
            question=sample.fields["question"].strip(),
            **dict(zip(_LETTERS, sample.choices, strict=True)),
        )


benchmark = LongBenchV2
