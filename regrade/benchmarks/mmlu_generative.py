"""MMLU as a chat: the model may reason, then gives the letter in its text.

Paper:    Hendrycks et al. 2021, Measuring Massive Multitask Language Understanding,
          https://arxiv.org/abs/2009.03300
Dataset:  https://huggingface.co/datasets/cais/mmlu (config `all`); 14,042 test questions
Licence:  MIT

Questions, targets and ids are the same as in `mmlu`. With `n_shots`, dev questions of the subject become turns;
their answers are the letter, without reasoning.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks import mmlu
from regrade.benchmarks.questions.targets import listed
from regrade.records import Sample
from regrade.settings import Method, PromptFormat, SamplingParams, ScorerName

INSTRUCTION = (
    "Answer the following multiple choice question about {subject}. Reason briefly if it helps, then end with a "
    "line of the form `Answer: X`, where X is the letter of the right choice."
)


class MmluGenerative(mmlu.Mmlu):
    """MMLU as chat: an instruction, then the question; the letter is read from the text."""

    name = "mmlu_generative"
    version = 1
    description = "Multiple choice questions of 57 subjects, with the letter read from the text."
    method: Method = "generate"
    scorers: tuple[ScorerName, ...] = ("choice_letter",)
    default_n_shots = 0
    default_format: PromptFormat = "chat"
    opening_template = INSTRUCTION
    completion_opening = mmlu.OPENING
    question_template = "{question}\n{choices}"
    completion_template = mmlu.TEMPLATE
    sampling = SamplingParams(temperature=0.0, max_tokens=512)
    completion_sampling: Mapping[str, Any] = {"stop": ("\n\n",)}

    def listed_choices(self, sample: Sample) -> str:
        """Return the choices as lines, without white space around them."""
        return listed(sample.choices)

    def answer(self, sample: Sample) -> str:
        """Return the letter; for chat in the form that the instruction requires."""
        return f"Answer: {sample.target}" if self.format == "chat" else sample.target


benchmark = MmluGenerative
