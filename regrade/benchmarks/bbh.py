"""BIG-Bench Hard: 27 tasks of reasoning, with worked examples that think step by step.

Paper:    Suzgun et al. 2022, Challenging BIG-Bench Tasks and Whether Chain-of-Thought Can Solve Them,
          https://arxiv.org/abs/2210.09261
Dataset:  https://huggingface.co/datasets/SaylorTwift/bbh (a configuration per task), from
          https://github.com/suzgunmirac/BIG-Bench-Hard; 6,511 questions
Revision: the newest commit, which becomes part of the specification
Licence:  MIT

The description of each task, the form of a question and the 3 worked examples are read from lm-evaluation-harness
(`bbh_cot_fewshot_*`), so that a prompt for plain text is the harness', character by character. A hash of them is part of the
benchmark's identity.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import orjson

from regrade.benchmarks.questions.configs import SUBSET
from regrade.benchmarks.questions.harness import WorkedTask, worked_tasks
from regrade.benchmarks.questions.prompting import Turn
from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import RowError, text_target
from regrade.records import Sample
from regrade.settings import Method, PromptFormat, SamplingParams, ScorerName
from regrade.settings.errors import SettingsError

TASKS = (
    "boolean_expressions",
    "causal_judgement",
    "date_understanding",
    "disambiguation_qa",
    "dyck_languages",
    "formal_fallacies",
    "geometric_shapes",
    "hyperbaton",
    "logical_deduction_five_objects",
    "logical_deduction_seven_objects",
    "logical_deduction_three_objects",
    "movie_recommendation",
    "multistep_arithmetic_two",
    "navigate",
    "object_counting",
    "penguins_in_a_table",
    "reasoning_about_colored_objects",
    "ruin_names",
    "salient_translation_error_detection",
    "snarks",
    "sports_understanding",
    "temporal_sequences",
    "tracking_shuffled_objects_five_objects",
    "tracking_shuffled_objects_seven_objects",
    "tracking_shuffled_objects_three_objects",
    "web_of_lies",
    "word_sorting",
)


class Bbh(PublishedBenchmark):
    """BBH as plain text: the task's description, worked examples that think, then the question."""

    name = "bbh"
    version = 1
    description = "27 hard reasoning tasks, solved step by step after worked examples."
    paper = "https://arxiv.org/abs/2210.09261"
    method: Method = "generate"
    scorers: tuple[ScorerName, ...] = ("text",)
    hub_dataset, split, shots_split = "SaylorTwift/bbh", "test", "lm_eval"
    configs = MappingProxyType({task: task for task in TASKS})
    shots_by_subset = True
    default_n_shots = 3
    default_format: PromptFormat = "completion"
    columns = ("input", "target", SUBSET)

    @property
    def splits(self) -> tuple[str, ...]:
        """Split with the questions; the worked examples come from the harness."""
        return (self.split,)

    @property
    def question_template(self) -> str:
        """Form of a question, which is the same for all tasks."""
        return self._tasks[TASKS[0]].question

    @property
    def parameters(self) -> dict[str, Any]:
        """Hash of the descriptions and worked examples that are used."""
        used = {
            name: [task.description, task.question, *task.examples[: self.n_shots]]
            for name, task in self._tasks.items()
        }
        digest = hashlib.sha256(orjson.dumps(used, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return {"examples": digest[:16]}

    @property
    def sampling(self) -> SamplingParams:
        """Greedy decoding; a completion ends with its paragraph, or when the model asks another question."""
        stop = ("\n\n", "\nQ:") if self.format == "completion" else ()
        return SamplingParams(temperature=0.0, max_tokens=1024, stop=stop)

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Question]:
        """Return questions whose target is the answer as text, such as `(B)`, `No` or `] }`."""
        return [_read_row(index, row) for index, row in enumerate(rows)]

    def opening(self, subset: str) -> str:
        """Return the description of the task."""
        return self._tasks[subset].description.strip()

    def question(self, sample: Sample) -> str:
        """Return the question in the harness' form; in a chat without white space at its end."""
        task = self._tasks[sample.subset]
        return self._shown(task.asked(sample.fields["input"]))

    def answer(self, sample: Sample) -> str:
        """Return the target; the worked examples come from the harness instead."""
        return sample.target

    def _shown(self, question: str) -> str:
        return question.rstrip() if self.format == "chat" else question

    def _shots(self, groups: Sequence[str]) -> dict[str, list[Turn]]:
        """Return the worked examples of each task, from the harness' files."""
        shots: dict[str, list[Turn]] = {}
        for name in groups:
            task = self._tasks[name]
            if self.n_shots > len(task.examples):
                raise SettingsError(
                    f"Benchmark '{self.name}' has {len(task.examples)} worked examples for '{name}', but n_shots is "
                    f"{self.n_shots}. Set n_shots to {len(task.examples)} or less."
                )
            shots[name] = [
                (self._shown(task.asked(question)), answer)
                for question, answer in task.examples[: self.n_shots]
            ]
        return shots

    @cached_property
    def _tasks(self) -> Mapping[str, WorkedTask]:
        return worked_tasks("bbh/cot_fewshot", TASKS)


def _read_row(index: int, row: Mapping[str, Any]) -> Question:
    question, task = row["input"], row[SUBSET]
    if not isinstance(question, str) or not question.strip():
        raise RowError(index, f"the input of '{task}' is {question!r}; expected a text")
    target = text_target(row["target"])
    if target is None:
        raise RowError(
            index, f"the target of '{task}' is {row['target']!r}; expected a text or number"
        )
    return Question(content=question, target=target.strip(), fields=row, subset=task)


benchmark = Bbh
