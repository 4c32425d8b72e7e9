"""GSM8K: grade school word problems whose answer is a number, few-shot with worked solutions.

Paper:    Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems, https://arxiv.org/abs/2110.14168
Dataset:  https://huggingface.co/datasets/openai/gsm8k (config `main`), from
          https://github.com/openai/grade-school-math; 1,319 test and 7,473 train questions
Licence:  MIT

The worked examples are the first rows of the train split, without their calculator annotations (`<<48/2=24>>`).
The target is the number after `####`, without thousands commas: `#### 2,125` has the target `2125`.
"""

import re
from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import RowError, number_target, question_text
from regrade.records import Sample
from regrade.settings import PromptFormat, SamplingParams, ScorerName

TEMPLATE = "Question: {question}\nAnswer:"
_ANNOTATION = re.compile(r"<<[^<>]*>>")


class Gsm8k(PublishedBenchmark):
    """GSM8K as plain text: worked examples, then the question."""

    name = "gsm8k"
    description = "Grade school word problems, solved step by step after worked examples."
    paper = "https://arxiv.org/abs/2110.14168"
    scorers: tuple[ScorerName, ...] = ("number", "number_strict")
    hub_dataset, config, split, shots_split = "openai/gsm8k", "main", "test", "train"
    default_n_shots = 8
    default_format: PromptFormat = "completion"
    columns = ("question", "answer")
    question_template = TEMPLATE
    sampling = SamplingParams(temperature=0.0, max_tokens=512)
    completion_sampling: Mapping[str, Any] = {"stop": ("\nQuestion:",)}

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a question whose target is the number after `####`."""
        question, answer = question_text(index, row["question"]), row["answer"]
        if not isinstance(answer, str) or "####" not in answer:
            raise RowError(
                index, f"the answer is {answer!r}; expected a text that ends with `#### N`"
            )
        target = number_target(answer)
        if target is None:
            text = answer.rpartition("####")[2].strip()
            raise RowError(
                index, f"the target {text!r} is not a number; expected a number after `####`"
            )
        return Question(content=question, target=target, fields=row)

    def answer(self, sample: Sample) -> str:
        """Return the worked solution, which ends with `#### N`."""
        return _ANNOTATION.sub("", sample.fields["answer"]).strip()


benchmark = Gsm8k
