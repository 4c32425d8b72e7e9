"""MMLU as a chat: the model may reason, then gives the letter in its text.

Paper:    Hendrycks et al. 2021, Measuring Massive Multitask Language Understanding,
          https://arxiv.org/abs/2009.03300
Dataset:  https://huggingface.co/datasets/cais/mmlu (config `all`); 14,042 test questions
Licence:  MIT

Questions, targets and ids are the same as in `mmlu`. With `n_shots`, dev questions of the subject become turns;
their answers are the letter, without reasoning.
"""

from regrade.benchmarks import mmlu
from regrade.benchmarks.questions.targets import listed
from regrade.records import Sample
from regrade.settings import Method, PromptFormat, SamplingParams, ScorerName

INSTRUCTION = (
    "Answer the following multiple choice question about {subject}. Reason briefly if it helps, then end with a "
    "line of the form `Answer: X`, where X is the letter of the right choice."
)
TEMPLATE = "{question}\n{choices}"


class MmluGenerative(mmlu.Mmlu):
    """MMLU as chat: an instruction, then the question; the letter is read from the text."""

    name = "mmlu_generative"
    version = 1
    description = "Multiple choice questions of 57 subjects, with the letter read from the text."
    method: Method = "generate"
    scorers: tuple[ScorerName, ...] = ("choice_letter",)
    default_n_shots = 0
    default_format: PromptFormat = "chat"

    @property
    def opening_template(self) -> str:
        """Instruction for chat; a completion begins like `mmlu`."""
        return INSTRUCTION if self.format == "chat" else mmlu.OPENING

    @property
    def question_template(self) -> str:
        """Question and choices; for completion also a cue to answer."""
        return TEMPLATE if self.format == "chat" else mmlu.TEMPLATE

    @property
    def sampling(self) -> SamplingParams:
        """Greedy decoding; a completion ends with its first paragraph."""
        stop = ("\n\n",) if self.format == "completion" else ()
        return SamplingParams(temperature=0.0, max_tokens=512, stop=stop)

    def listed_choices(self, sample: Sample) -> str:
        """Return the choices as lines, without white space around them."""
        return listed(sample.choices)

    def answer(self, sample: Sample) -> str:
        """Return the letter; for chat in the form that the instruction requires."""
        return f"Answer: {sample.target}" if self.format == "chat" else sample.target


benchmark = MmluGenerative
