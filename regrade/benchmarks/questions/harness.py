"""A task, group or tag of lm-evaluation-harness as a benchmark; subsets are its leaf tasks.

The requests are those of the harness (`regrade.lm_eval.requests`): documents, worked examples, continuations. All requests
of a split are built before the limit chooses questions, because worked examples are drawn in the order of the documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regrade.benchmarks.questions.harness_data import HarnessData
from regrade.benchmarks.questions.prompting import chat_settings
from regrade.benchmarks.questions.reading import quiet_datasets
from regrade.benchmarks.questions.samples import Question, check_limit, number_samples, spread
from regrade.lm_eval.documents import document_of
from regrade.lm_eval.identity import content_hash
from regrade.lm_eval.index import entry_of, task_index
from regrade.lm_eval.made import QuestionMaker, Tokenizer, makes_questions
from regrade.lm_eval.package import VERSION
from regrade.lm_eval.plan import TaskPlan, cannot_run, plan_tasks
from regrade.lm_eval.refusals import MIXED_METHODS, MIXED_REPEATS, MIXED_SAMPLING
from regrade.lm_eval.sampling import sampling_of
from regrade.lm_eval.seeds import FEWSHOT_SEED
from regrade.records import Message, RankingRule, Sample
from regrade.records.images import Image, read_image
from regrade.records.specification import BenchmarkIdentity, PromptIdentity
from regrade.settings import (
    HARNESS,
    HarnessTasks,
    Method,
    PromptFormat,
    PromptSettings,
    SamplingParams,
)

if TYPE_CHECKING:
    from regrade.lm_eval.requests import AskedQuestion, AskedTask

SCORER = "lm_eval"
NOT_TO_BE_PUBLISHED = ("Idavidrein/gpqa", "cais/hle")
"""Datasets whose authors ask that questions are not published."""


MADE = "made"
"""Source of questions that a function of a task makes of nothing but its own code."""


class HarnessBenchmark:
    """Benchmark `lm_eval:<task>`."""

    version = 1
    paper = ""
    scorers = (SCORER,)
    images_stay = False
    cuts_when_scored = True
    cut = None
    long_thoughts = False

    def __init__(
        self,
        name: str,
        *,
        prompt: PromptSettings,
        limit: int | None,
        source: str | None,
        tasks: HarnessTasks,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Open a task.

        Args:
            name: `lm_eval:` and the name of a task, group or tag.
            prompt: Changes to its prompts.
            limit: Number of questions, spread evenly over all tasks; None: all.
            source: Folder to read instead of the datasets; see `HarnessData`.
            tasks: Folder with yaml files of the user, and arguments of a function that makes the questions.
            tokenizer: Tokenizer that such a function gets.

        Raises:
            NotInstalledError: If lm_eval is not installed.
            SettingsError: If there is no such task, or it cannot be run.
            SourceError: If a folder does not exist.
        """
        check_limit(limit)
        self.name, self._prompt, self._limit, self._tasks = name, prompt, limit, tasks
        self.task = name.removeprefix(HARNESS)
        self._index = task_index(tasks.path)
        entry_of(self.task, self._index)  # refuses an unknown name before anything is started
        self._data = HarnessData(name, source)
        self._source, self._arguments, self._tokenizer = source, tasks.arguments, tokenizer
        self._made_with: dict[str, HarnessBenchmark] = {}
        self._images: dict[str, Image] = {}
        """Images of the questions, by their marks."""
        self.format: PromptFormat = prompt.format or "completion"

    @cached_property
    def makes_questions(self) -> bool:
        """True if a function of a task makes its questions, unless a folder holds them."""
        return self._source is None and any(map(makes_questions, self._plan.configs.values()))

    def made_with(self, tokenizer: Tokenizer) -> "HarnessBenchmark":
        """Return the benchmark whose questions are made with a tokenizer: one object for all models that have it."""
        if tokenizer.sha256 not in self._made_with:
            self._made_with[tokenizer.sha256] = HarnessBenchmark(
                self.name,
                prompt=self._prompt,
                limit=self._limit,
                source=self._source,
                tasks=self._tasks,
                tokenizer=tokenizer,
            )
        return self._made_with[tokenizer.sha256]

    @property
    def description(self) -> str:
        """Description in one sentence."""
        return f"Task '{self.task}' of lm-evaluation-harness {VERSION}."

    @property
    def method(self) -> Method:
        """`generate` text, or `rank` continuations."""
        kinds = {
            "generate" if _generates(config) else "rank" for config in self._plan.configs.values()
        }
        if len(kinds) > 1:
            raise cannot_run(self.task, MIXED_METHODS)
        return "generate" if kinds == {"generate"} else "rank"

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Leaf tasks of each group below the one that was asked for."""
        return {
            name: tuple(task.task_name for task in group.get_all_tasks())
            for name, group in self._plan.groups.items()
            if name != self.task
        }

    @cached_property
    def withheld(self) -> bool:
        """True if a task asks questions whose authors ask that they are not published."""
        configs = self._plan.configs.values()
        return any(config.get("dataset_path") in NOT_TO_BE_PUBLISHED for config in configs)

    @cached_property
    def identity(self) -> BenchmarkIdentity:
        """Exact identity of the questions; reads the data."""
        asked = self._asked
        configs = self._plan.configs.values()
        paths = sorted({_path(config) for config in configs})
        names = {config.get("dataset_name") for config in configs}
        return BenchmarkIdentity(
            name=self.name,
            version=self.version,
            source=self._data.name or (paths[0] if len(paths) == 1 else "several"),
            source_revision=self._data.revision,
            config=next(iter(names)) if len(names) == 1 else None,
            split=",".join(sorted({_split(config) for config in configs})),
            limit=self._limit,
            parameters={
                "harness": f"lm_eval {VERSION}",
                "files": content_hash(self.task, self._index, self._tasks.path),
                "datasets": dict(sorted(self._data.revisions.items())),
                "fewshot_seed": FEWSHOT_SEED,
                "tasks": {task.name: _facts(task) for task in asked},
                **self._making,
            },
        )

    @property
    def _making(self) -> dict[str, Any]:
        """Arguments and tokenizer of the questions that functions made; hashes of all of them are among the datasets."""
        if self._maker is None:
            return {}
        tokenizer = self._tokenizer
        return {
            "arguments": dict(sorted(self._arguments.items())),
            "tokenizer": tokenizer.sha256 if tokenizer and self._maker.measured else None,
        }

    @cached_property
    def prompt_identity(self) -> PromptIdentity:
        """Exact identity of the prompts; the task's files, which hold their templates, are part of `identity`."""
        shots = {task.n_shots for task in self._asked}
        return PromptIdentity(
            format=self.format,
            template=self.name,
            n_shots=shots.pop() if len(shots) == 1 else None,
            system=self._prompt.system,
            truncate=self._prompt.truncate,
            **(chat_settings(self._prompt) if self.format == "chat" else {}),
        )

    @cached_property
    def sampling(self) -> SamplingParams:
        """Generation settings of the tasks, with the defaults that the harness' vLLM model has."""
        if self.method == "rank":
            return SamplingParams(temperature=0.0, max_tokens=1)
        found = [
            sampling_of(
                name, config.get("generation_kwargs"), config.get("fewshot_delimiter", "\n\n")
            )
            for name, config in self._plan.configs.items()
        ]
        if any(other != found[0] for other in found):
            raise cannot_run(self.task, MIXED_SAMPLING)
        return found[0]

    @cached_property
    def repeats(self) -> int:
        """Answers per question that the tasks ask for."""
        found = {config.get("repeats") or 1 for config in self._plan.configs.values()}
        if len(found) > 1:
            raise cannot_run(self.task, MIXED_REPEATS)
        return int(found.pop())

    def samples(self) -> Sequence[Sample]:
        """Return the questions, with the limit applied."""
        return self._samples

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return the prompt; before several continuations with different contexts, the first of these."""
        contexts = self._question(sample).contexts
        return contexts[0] if contexts else ""

    def labels(self, sample: Sample) -> tuple[str, ...]:
        """Return the continuations to rank."""
        return sample.continuations

    def ranking(self, sample: Sample) -> RankingRule:
        """Return the harness' rule, or that of a whole text."""
        return "continuations" if self._question(sample).contexts else "text"

    def contexts(self, sample: Sample) -> tuple[str | tuple[Message, ...], ...]:
        """Return the contexts of the continuations if they differ."""
        contexts = self._question(sample).contexts
        return contexts if len(set(map(repr, contexts))) > 1 else ()

    @cached_property
    def _plan(self) -> TaskPlan:
        return plan_tasks(self.task, self._index)

    @cached_property
    def _maker(self) -> QuestionMaker | None:
        if not self.makes_questions:
            return None
        return QuestionMaker(self._arguments, self._tokenizer, self._data.revisions)

    @cached_property
    def _asked(self) -> "Sequence[AskedTask]":
        from regrade.lm_eval.requests import ask  # noqa: PLC0415 - imports lm_eval

        prompt = self._prompt
        with quiet_datasets():
            return ask(
                self._plan,
                self._data.splits,
                n_shots=prompt.n_shots,
                chat=self.format == "chat",
                system=prompt.system,
                maker=self._maker,
                keep=self._keep,
            )

    def _keep(self, content: bytes) -> str:
        image = read_image(content)
        return self._images.setdefault(image.mark, image).mark

    @cached_property
    def _samples(self) -> list[Sample]:
        if self.method == "generate":
            _ = self.sampling  # refuses tasks that differ
        samples = [
            replace(
                sample,
                doc=question.document,
                continuations=question.continuations,
                images=tuple(self._images[mark] for mark in dict.fromkeys(question.images)),
                error=question.error,
            )
            for task in self._asked
            for sample, question in zip(_numbered(task), task.questions, strict=True)
        ]
        return spread(samples, self._limit)

    @cached_property
    def _by_task(self) -> "Mapping[str, Mapping[int, AskedQuestion]]":
        return {
            task.name: {question.doc_id: question for question in task.questions}
            for task in self._asked
        }

    def _question(self, sample: Sample) -> "AskedQuestion":
        return self._by_task[sample.subset][sample.index]


def _numbered(task: "AskedTask") -> list[Sample]:
    """Return a sample for each question of a task; its index is the number of the document."""
    samples = number_samples(
        Question(
            content=document_of(question.document),
            target=question.target,
            fields={},
            subset=task.name,
            choices=question.choices,
        )
        for question in task.questions
    )
    return [
        replace(sample, index=question.doc_id, question=None)
        for sample, question in zip(samples, task.questions, strict=True)
    ]


def _facts(task: "AskedTask") -> dict[str, Any]:
    """Return the facts about a task that scoring needs, or that decide its requests."""
    return {
        "version": task.version,
        "kind": task.kind,
        "questions": len(task.questions),
        "n_shots": task.n_shots,
        "multiple_inputs": task.multiple_inputs,
        "multiple_targets": task.multiple_targets,
    }


def _path(config: Mapping[str, Any]) -> str:
    path = config.get("dataset_path")
    return MADE if not path and makes_questions(config) else str(path)


def _generates(config: Mapping[str, Any]) -> bool:
    return bool(config.get("output_type", "generate_until") == "generate_until")


def _split(config: Mapping[str, Any]) -> str:
    return str(config.get("test_split") or config.get("validation_split"))
