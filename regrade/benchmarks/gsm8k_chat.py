"""GSM8K as a chat: the question and the required form of the answer, without worked examples.

Paper:    Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems, https://arxiv.org/abs/2110.14168
Dataset:  https://huggingface.co/datasets/openai/gsm8k (config `main`); 1,319 test questions
Licence:  MIT

Questions, targets and ids are the same as in `gsm8k`. With `n_shots`, the first rows of the train split become turns.
"""

from regrade.benchmarks import gsm8k
from regrade.settings import PromptFormat, SamplingParams

INSTRUCTION = (
    "Solve the following math problem. Think it through step by step, then give the result as a plain number on "
    "a last line of its own, in the form: #### <number>"
)


class Gsm8kChat(gsm8k.Gsm8k):
    """GSM8K as chat: an instruction, then the question."""

    name = "gsm8k_chat"
    version = 1
    description = "Grade school word problems, asked in a chat without worked examples."
    default_n_shots = 0
    default_format: PromptFormat = "chat"
    opening_template = INSTRUCTION
    question_template = "{question}"
    completion_template = gsm8k.TEMPLATE
    sampling = SamplingParams(temperature=0.0, max_tokens=1024)
    """Greedy decoding, with room for reasoning."""


benchmark = Gsm8kChat
