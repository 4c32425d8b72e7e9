"""Base classes of benchmarks: pinned source, sample ids, limit, worked examples, chat and completion prompts."""

import logging
from abc import ABC
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from regrade.benchmarks.base import BenchmarkCard, UsualBenchmark
from regrade.benchmarks.questions.configs import open_configs
from regrade.benchmarks.questions.prompting import (
    Turn,
    chat_prompt,
    chat_settings,
    completion_prompt,
    system_turn,
)
from regrade.benchmarks.questions.reading import Source
from regrade.benchmarks.questions.references import Wording, wording
from regrade.benchmarks.questions.samples import (
    Question,
    UserTurn,
    by_turn,
    check_limit,
    groups_by_turn,
    number_samples,
    spread,
)
from regrade.benchmarks.questions.sources import LocalSource, open_hub
from regrade.benchmarks.questions.targets import LETTERS, RowError, needed_text
from regrade.records import Message, Sample
from regrade.records.specification import TURNS, BenchmarkIdentity, PromptIdentity
from regrade.settings import Method, PromptFormat, PromptSettings, SamplingParams, ScorerName
from regrade.settings.errors import SettingsError
from regrade.text.text import part_of

logger = logging.getLogger("regrade.plan")


class StandardBenchmark(UsualBenchmark, ABC):
    """Base of all benchmarks. A subclass reads rows, and formats questions and the answers of worked examples."""

    name: str
    version: int
    description: str
    paper: str
    method: Method
    scorers: tuple[ScorerName, ...]
    rubric: str | None = None
    """Rubric by which a judge grades the answers, if their headline number comes from one."""
    question_column = "question"
    split: str
    shots_split: str = ""
    """Split with worked examples; "" if the dataset has none."""
    only_chat = False
    """True if it is always asked in a chat."""
    shots_by_subset: bool = False
    """True if worked examples come from the same subset as the question."""
    columns: tuple[str, ...]
    """Columns that a row of questions must have."""
    opening_template: str = ""
    """Template of the text before the first question."""
    question_template: str
    """Template of a question."""
    sampling: SamplingParams
    """Decoding settings of the benchmark."""
    completion_opening: str | None = None
    """`opening_template` of completions; None: that of chats."""
    completion_template: str | None = None
    """`question_template` of completions; None: that of chats."""
    completion_sampling: Mapping[str, Any] = {}
    """Changes to `sampling` for completions, such as the texts with which the next question begins."""

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
        if self.only_chat and self.format != "chat":
            raise SettingsError(
                f"Benchmark '{self.name}' is asked in chats: leave out `prompt.format={self.format}`."
            )
        if self.format == "completion":
            self._take_completion()
        if self.n_shots and not self.shots_split:
            raise SettingsError(
                f"Benchmark '{self.name}' has no worked examples, but `prompt.n_shots={self.n_shots}`. Set it to 0."
            )
        if self.n_shots and self.split == self.shots_split:
            raise SettingsError(
                f"Benchmark '{self.name}' would use questions of split '{self.split}' also as worked examples. "
                "Set `datasets.shots_split` to another split, or `prompt.n_shots=0`."
            )
        self._wording: Wording | None = None
        if prompt.prompts is not None:
            self._wording = wording(prompt.prompts, self.name)
            if self.format == "completion" or self.n_shots:
                raise SettingsError(
                    f"The prompts of {prompt.prompts} (`--prompts`) are chats without worked examples. Leave out "
                    f"{'`--format completion`' if self.format == 'completion' else '`--n-shots`'}."
                )

    def _take_completion(self) -> None:
        if self.completion_opening is not None:
            self.opening_template = self.completion_opening
        if self.completion_template is not None:
            self.question_template = self.completion_template
        if self.completion_sampling:
            self.sampling = self.sampling.model_copy(update=self.completion_sampling)

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Subsets of each category; of conversations each turn is one."""
        return groups_by_turn(self.samples()) if TURNS in self.parameters else {}

    @property
    def system_template(self) -> str | None:
        """Template of the system message, part of the prompts' identity."""
        return self._prompt.system

    def system(self, sample: Sample) -> str | None:  # noqa: ARG002 - one for all questions
        """Return the system message of a question."""
        return self._prompt.system

    @property
    def template(self) -> str:
        """Template of the prompt, part of its identity."""
        return "\n\n".join(filter(None, (self.opening_template, self.question_template)))

    @property
    def shot_columns(self) -> tuple[str, ...]:
        """Columns that a row of worked examples must have."""
        return self.columns

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Question]:
        """Return the rows of a split as questions; errors as in `read_row`."""
        return [self.read_row(index, row) for index, row in enumerate(rows)]

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a row as a question, for benchmarks that do not `read` all rows together.

        Raises:
            RowError: If the benchmark cannot use the row.
        """
        raise NotImplementedError

    def reason_left_out(self, row: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - most use all rows
        """Return why a row of the source is no question of the benchmark; None if it is one.

        Raises:
            RowError: If the row cannot be used; its number is not known here, 0 stands for it.
        """
        return None

    def check(self, sample: Sample) -> None:
        """Check a selected question after its whole split was read.

        Raises:
            RowError: If no prompt can be made from the question.
        """

    def question(self, sample: Sample) -> str:
        """Return the text of the question, including the cue to answer."""
        question: str = sample.fields[self.question_column]
        return self.question_template.format(question=question.strip())

    def answer(self, sample: Sample) -> str:
        """Return the answer of a worked example."""
        return sample.target

    def turns(self, sample: Sample) -> Sequence[UserTurn]:
        """Return the user's turns of a conversation, the field `TURNS`; () if the benchmark has no parameter of this name."""
        found: Sequence[UserTurn] = sample.fields[TURNS] if TURNS in self.parameters else ()
        return found

    def parts(self, sample: Sample) -> Mapping[str, Any]:  # noqa: ARG002 - most benchmarks have no references
        """Return the parts of a question by the names that references of `--prompts` have for them."""
        return {}

    def opening(self, subset: str) -> str:
        """Return the text before the first question of a prompt, or ""."""
        return self.opening_template.format(subject=subset.replace("_", " "))

    @property
    def parameters(self) -> dict[str, Any]:
        """Other settings that decide the questions and targets."""
        return {}

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits of the source that are read."""
        return (self.split, self.shots_split) if self.n_shots else (self.split,)

    @cached_property
    def identity(self) -> BenchmarkIdentity:
        """Exact identity of the questions."""
        return BenchmarkIdentity(
            name=self.name,
            version=self.version,
            source=self._source.name,
            source_revision=self._source.revision(self.splits),
            config=self._source.config,
            split=self.split,
            limit=self._limit,
            parameters=self.parameters,
        )

    @cached_property
    def prompt_identity(self) -> PromptIdentity:
        """Exact identity of the prompts. A chat template is part of it only for chat."""
        reference = self._wording
        return PromptIdentity(
            format=self.format,
            template=self.template if reference is None else reference.user,
            n_shots=self.n_shots,
            system=self.system_template,
            prefill=None if reference is None else reference.prefill,
            prompts=self._prompt.prompts,
            truncate=self._prompt.truncate,
            **(chat_settings(self._prompt) if self.format == "chat" else {}),
        )

    def samples(self) -> Sequence[Sample]:
        """Return the validated questions, with the limit applied. Reads the source once."""
        return self._loaded[0]

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return the prompt: text for completion, messages for chat; of a later turn what follows the answer before it."""
        if sample.previous is not None:
            return ({"role": "user", "content": str(sample.question)},)
        if self._wording is not None:
            return self._wording.messages(self.system(sample), self.parts(sample))
        shots = self._loaded[1][sample.subset if self.shots_by_subset else ""]
        build: Callable[..., str | tuple[Message, ...]] = (
            chat_prompt if self.format == "chat" else completion_prompt
        )
        return build(self.system(sample), self.opening(sample.subset), shots, self.question(sample))

    def labels(self, sample: Sample) -> tuple[str, ...]:
        """Return the letters to rank; for completion with a space before each."""
        if self.method == "generate":
            return ()
        space = "" if self.format == "chat" else " "
        return tuple(space + letter for letter in LETTERS[: len(sample.choices)])

    @cached_property
    def _loaded(self) -> tuple[list[Sample], dict[str, list[Turn]]]:
        with self._row_errors(self.split):
            samples = spread(self._read(self.split, self.columns), self._limit)
            for sample in samples:
                self.check(sample)
            samples = [turn for sample in samples for turn in self._asked(sample)]
        if not self.shots_by_subset:
            return samples, self._shots([""])
        subsets = list(dict.fromkeys(sample.subset for sample in samples))
        # Questions with the same worked examples follow each other: engines cache shared prefixes.
        samples.sort(key=lambda sample: subsets.index(sample.subset))
        return samples, self._shots(subsets)

    def _asked(self, sample: Sample) -> list[Sample]:
        """Return the question, or the turns of a conversation."""
        if turns := self.turns(sample):
            return by_turn(sample, turns)
        if sample.question is not None:
            return [sample]
        return [replace(sample, question=self.question(sample))]

    def _shots(self, groups: Sequence[str]) -> dict[str, list[Turn]]:
        """Return the worked examples of each group. A group is a subset, or "" for all questions."""
        shots: dict[str, list[Turn]] = {group: [] for group in groups}
        if not self.n_shots:
            return shots
        head = None if self.shots_by_subset else self.n_shots
        with self._row_errors(self.shots_split):
            for sample in self._read(self.shots_split, self.shot_columns, head):
                turns = shots.get(sample.subset if self.shots_by_subset else "")
                if turns is not None and len(turns) < self.n_shots:
                    self.check(sample)
                    turns.append((self.question(sample), self.answer(sample)))
        for group, turns in shots.items():
            if len(turns) < self.n_shots:
                part = f" for '{group}'" if group else ""
                raise self._source.error(
                    f"split '{self.shots_split}' has {len(turns)} worked examples{part}, but "
                    f"`prompt.n_shots={self.n_shots}`; set it to {len(turns)} or less"
                )
        return shots

    def _read(self, split: str, columns: tuple[str, ...], head: int | None = None) -> list[Sample]:
        rows = self._source.rows(split, columns, head)
        reasons = [self._reason(index, row) for index, row in enumerate(rows)]
        kept = [index for index, reason in enumerate(reasons) if reason is None]
        if not kept:
            raise self._source.error(
                f"split '{split}': all {len(rows):,} rows are left out ({reasons[0]})"
            )
        for reason, count in Counter(reason for reason in reasons if reason is not None).items():
            left_out = part_of(count, len(rows), "row")
            logger.info("%s: %s are left out: %s", self.name, left_out, reason)
        try:
            questions = self.read([rows[index] for index in kept])
        except RowError as error:
            raise RowError(kept[error.row], error.problem) from error
        return number_samples(questions, kept)

    def _reason(self, index: int, row: Mapping[str, Any]) -> str | None:
        try:
            return self.reason_left_out(row)
        except RowError as error:
            raise RowError(index, error.problem) from error

    @contextmanager
    def _row_errors(self, split: str) -> Iterator[None]:
        """Turn a `RowError` into an error that names benchmark, source and split."""
        try:
            yield
        except RowError as error:
            raise self._source.error(
                f"row {error.row} (from 0) of split '{split}': {error.problem}"
            ) from error
        except RecursionError as error:  # JSON within a text
            raise self._source.error(f"split '{split}': JSON that is nested too deeply") from error


class PublishedBenchmark(StandardBenchmark):
    """Published benchmark with a dataset on the Hub; a local file or folder can replace the dataset."""

    version = 1
    """Raised when prompts, targets or sample ids change."""
    method: Method = "generate"
    hub_dataset: str
    config: str | None = None
    """Configuration of the Hub dataset; None if it has only one."""
    configs: Mapping[str, str] = {}
    """Several configurations, with the subset that each becomes; they are used instead of `config`."""
    lacking: Mapping[str, Collection[str]] = {}
    """Columns that some of `configs` do not have; their rows have None there."""
    subset_column: str | None = None
    """Column whose values are the subsets."""
    default_n_shots: int = 0
    default_format: PromptFormat = "chat"

    def __init__(self, *, prompt: PromptSettings, limit: int | None, source: str | None) -> None:
        """Open the benchmark; see `open_benchmark`."""
        super().__init__(
            self.open_source(source),
            prompt,
            limit,
            n_shots=self.default_n_shots,
            prompt_format=self.default_format,
        )

    def open_source(self, path: str | None) -> Source:
        """Return the Hub dataset, or the local file or folder that replaces it."""
        if self.configs:
            return open_configs(
                self.name, self.hub_dataset, self.configs, path, self.split, self.lacking
            )
        if path is not None:
            return LocalSource(self.name, path, self.split)
        return open_hub(self.name, self.hub_dataset, self.config)

    def subset(self, index: int, row: Mapping[str, Any]) -> str:
        """Return the subset of a row.

        Raises:
            RowError: If it is no text.
        """
        column = self.subset_column
        return "" if column is None else needed_text(index, f"the {column}", row[column])

    @classmethod
    def card(cls) -> BenchmarkCard:
        """Facts about the benchmark that are known without opening it."""
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
            repeats=cls.repeats,
        )


class WrittenConversations(PublishedBenchmark):
    """Published benchmark whose questions end conversations that stand in the dataset: a sample's field `turns`."""

    only_chat = True

    def question(self, sample: Sample) -> str:
        """Return the last turn."""
        return str(sample.fields["turns"][-1]["content"])

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return the conversation, after the system message if there is one."""
        if self._wording is not None:
            return super().prompt(sample)
        return (*system_turn(self.system(sample)), *sample.fields["turns"])


class PublishedConversations(PublishedBenchmark):
    """Published benchmark whose questions are turns of the user, each asked after the model's own answer to the one before."""

    question_template = "{turns}"
    only_chat = True

    def question(self, sample: Sample) -> str:
        """Return the user's turn."""
        return sample.question or self.turns(sample)[0].text
