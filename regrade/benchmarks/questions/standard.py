"""What all benchmarks share: a pinned source, ids and limit, worked examples, chat and completion prompts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from regrade.benchmarks.base import BenchmarkCard
from regrade.benchmarks.questions.prompting import (
    Turn,
    chat_prompt,
    chat_settings,
    completion_prompt,
)
from regrade.benchmarks.questions.samples import Question, check_limit, number_samples, spread
from regrade.benchmarks.questions.sources import LocalSource, Source, open_hub
from regrade.benchmarks.questions.targets import LETTERS, RowError
from regrade.errors import SettingsError
from regrade.records import Message, Sample
from regrade.settings import Method, PromptFormat, PromptSettings, SamplingParams, ScorerName
from regrade.specification import BenchmarkIdentity, PromptIdentity


class StandardBenchmark(ABC):
    """A benchmark that says how to read a row, how to ask it and how a worked example answers it."""

    name: str
    version: int
    description: str
    paper: str
    method: Method
    scorers: tuple[ScorerName, ...]
    groups: Mapping[str, tuple[str, ...]] = {}
    split: str
    shots_split: str
    shots_by_subset: bool = False
    """Whether a question's worked examples are those of its own subset."""

    def __init__(
        self,
        source: Source,
        prompt: PromptSettings,
        limit: int | None,
        *,
        n_shots: int,
        prompt_format: PromptFormat,
    ) -> None:
        check_limit(limit)
        self._source, self._prompt, self._limit = source, prompt, limit
        self.n_shots = n_shots if prompt.n_shots is None else prompt.n_shots
        self.format: PromptFormat = prompt.format or prompt_format
        if self.n_shots and self.split == self.shots_split:
            raise SettingsError(
                f"Benchmark '{self.name}' would show questions of split '{self.split}' as worked examples of itself. "
                "Set shots_split to another split, or n_shots to 0."
            )

    @property
    def template(self) -> str:
        """The template of the prompt, as it enters the identity."""
        return "\n\n".join(filter(None, (self.opening_template, self.question_template)))

    @property
    def opening_template(self) -> str:
        """What stands before the first question; "" where nothing does."""
        return ""

    @property
    @abstractmethod
    def question_template(self) -> str:
        """How a question is asked."""

    @property
    @abstractmethod
    def sampling(self) -> SamplingParams:
        """The benchmark's own decoding settings."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns that a row of questions must have."""

    @property
    def shot_columns(self) -> tuple[str, ...]:
        """Columns that a row of worked examples must have."""
        return self.columns

    @abstractmethod
    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Question]:
        """Return the rows of a split as questions.

        Raises:
            RowError: If a row is not what the benchmark needs.
        """

    def check(self, sample: Sample) -> None:  # noqa: B027 - not all have to
        """Look at a question that will be asked, once all of its split are read.

        Raises:
            RowError: If no prompt can be made of it.
        """

    @abstractmethod
    def question(self, sample: Sample) -> str:
        """Return what is asked, up to where the answer begins."""

    @abstractmethod
    def answer(self, sample: Sample) -> str:
        """Return what a worked example answers."""

    def opening(self, subset: str) -> str:
        """Return what stands before the first question of a prompt."""
        return self.opening_template.format(subject=subset.replace("_", " "))

    @property
    def parameters(self) -> dict[str, Any]:
        """What else decides questions and targets."""
        return {}

    @cached_property
    def identity(self) -> BenchmarkIdentity:
        """Which questions, exactly."""
        splits = (self.split, self.shots_split) if self.n_shots else (self.split,)
        return BenchmarkIdentity(
            name=self.name,
            version=self.version,
            source=self._source.name,
            source_revision=self._source.revision(splits),
            config=self._source.config,
            split=self.split,
            limit=self._limit,
            parameters=self.parameters,
        )

    @cached_property
    def prompt_identity(self) -> PromptIdentity:
        """How questions become prompts, exactly. A chat template counts only where it is used."""
        return PromptIdentity(
            format=self.format,
            template=self.template,
            n_shots=self.n_shots,
            system=self._prompt.system,
            truncate=self._prompt.truncate,
            **(chat_settings(self._prompt) if self.format == "chat" else {}),
        )

    def samples(self) -> Sequence[Sample]:
        """Return the questions: validated, with the limit applied; read once."""
        return self._loaded[0]

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return what to ask: text for completion, messages for chat."""
        shots = self._loaded[1][sample.subset if self.shots_by_subset else ""]
        build: Callable[..., str | tuple[Message, ...]] = (
            chat_prompt if self.format == "chat" else completion_prompt
        )
        return build(self._prompt.system, self.opening(sample.subset), shots, self.question(sample))

    def labels(self, sample: Sample) -> tuple[str, ...]:
        """Return the letters to rank, with the space that follows the prompt of a completion."""
        if self.method == "generate":
            return ()
        space = "" if self.format == "chat" else " "
        return tuple(space + letter for letter in LETTERS[: len(sample.choices)])

    @cached_property
    def _loaded(self) -> tuple[list[Sample], dict[str, list[Turn]]]:
        with self._naming(self.split):
            samples = spread(self._read(self.split, self.columns), self._limit)
            for sample in samples:
                self.check(sample)
        if not self.shots_by_subset:
            return samples, self._shots([""])
        subsets = list(dict.fromkeys(sample.subset for sample in samples))
        # Questions with the same worked examples follow each other: engines keep shared beginnings.
        samples.sort(key=lambda sample: subsets.index(sample.subset))
        return samples, self._shots(subsets)

    def _shots(self, groups: Sequence[str]) -> dict[str, list[Turn]]:
        """Return the worked examples of each group: the subsets, or "" for all."""
        shots: dict[str, list[Turn]] = {group: [] for group in groups}
        if not self.n_shots:
            return shots
        head = None if self.shots_by_subset else self.n_shots
        with self._naming(self.shots_split):
            for sample in self._read(self.shots_split, self.shot_columns, head):
                turns = shots.get(sample.subset if self.shots_by_subset else "")
                if turns is not None and len(turns) < self.n_shots:
                    self.check(sample)
                    turns.append((self.question(sample), self.answer(sample)))
        for group, turns in shots.items():
            if len(turns) < self.n_shots:
                part = f" for '{group}'" if group else ""
                raise self._source.error(
                    f"split '{self.shots_split}' has {len(turns)} worked examples{part}, but n_shots is "
                    f"{self.n_shots}; set n_shots to {len(turns)} or less"
                )
        return shots

    def _read(self, split: str, columns: tuple[str, ...], head: int | None = None) -> list[Sample]:
        return number_samples(self.read(self._source.rows(split, columns, head)))

    @contextmanager
    def _naming(self, split: str) -> Iterator[None]:
        """Turn a problem with a row into an error that names benchmark, source and split."""
        try:
            yield
        except RowError as error:
            raise self._source.error(
                f"row {error.row} (from 0) of split '{split}': {error.problem}"
            ) from error


class PublishedBenchmark(StandardBenchmark):
    """A benchmark of the literature, with a dataset on the Hub that a local file or folder can replace."""

    hub_dataset: str
    config: str
    default_n_shots: int
    default_format: PromptFormat

    def __init__(
        self,
        *,
        prompt: PromptSettings,
        limit: int | None,
        source: str | None,
    ) -> None:
        """Open the benchmark; see `open_benchmark`."""
        super().__init__(
            open_hub(self.name, self.hub_dataset, self.config)
            if source is None
            else LocalSource(self.name, source, self.split),
            prompt,
            limit,
            n_shots=self.default_n_shots,
            prompt_format=self.default_format,
        )

    @classmethod
    def card(cls) -> BenchmarkCard:
        """Return what there is to know before opening it."""
        return BenchmarkCard(
            name=cls.name,
            version=cls.version,
            description=cls.description,
            source=cls.hub_dataset,
            paper=cls.paper,
            method=cls.method,
            format=cls.default_format,
            n_shots=cls.default_n_shots,
            scorers=cls.scorers,
        )
