"""Interface of all benchmarks: questions, prompts and their identity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from regrade.records import Message, RankingRule, Sample
from regrade.records.specification import BenchmarkIdentity, PromptIdentity
from regrade.settings import Cut, Method, PromptFormat, SamplingParams, ScorerName


@dataclass(frozen=True, slots=True)
class BenchmarkCard:
    """Facts about a benchmark that are known without opening it."""

    name: str
    version: int
    description: str
    source: str
    """Hub dataset, read unless another source is given."""
    paper: str
    method: Method
    format: PromptFormat
    n_shots: int
    scorers: tuple[ScorerName, ...]
    repeats: int = 1
    """Answers per question, if their number is not set."""


class UsualBenchmark:
    """Properties that most benchmarks have: nothing is ranked, cut or kept back; `Benchmark` describes them."""

    repeats: int = 1
    withheld: bool = False
    images_stay: bool = False
    cut: Cut | None = None
    cuts_when_scored: bool = False
    long_thoughts: bool = False

    def labels(self, sample: Sample) -> tuple[str, ...]:  # noqa: ARG002 - texts are generated or read
        """Return (): there are no labels to rank."""
        return ()

    def ranking(self, sample: Sample) -> RankingRule:  # noqa: ARG002 - one rule for all
        """Return the rule by which letters become tokens."""
        return "labels"

    def contexts(self, sample: Sample) -> tuple[str | tuple[Message, ...], ...]:  # noqa: ARG002 - as above
        """Return (): the same prompt stands before all labels."""
        return ()


class Benchmark(Protocol):
    """Questions and prompts of a benchmark. Opening a benchmark is cheap; `samples` reads the data."""

    @property
    def name(self) -> str:
        """Name, also used in stored answers."""

    @property
    def version(self) -> int:
        """Version, raised when prompts, targets or sample ids change."""

    @property
    def description(self) -> str:
        """Description in one sentence."""

    @property
    def paper(self) -> str:
        """Address of the paper, or ""."""

    @property
    def method(self) -> Method:
        """`generate` text, or `rank` the labels of the choices."""

    @property
    def scorers(self) -> tuple[ScorerName, ...]:
        """Scorers for the benchmark; the first gives the headline number."""

    @property
    def withheld(self) -> bool:
        """True if the questions must not be published: the answer repository then holds only ids, targets and answers."""

    @property
    def images_stay(self) -> bool:
        """True if its images must not be copied: the answer repository then names their dataset, revision and row."""

    @property
    def repeats(self) -> int:
        """Answers per question, if their number is not set."""

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Subsets of each category, by name of the category; empty without categories."""

    @property
    def identity(self) -> BenchmarkIdentity:
        """Exact identity of the questions. Resolves the Hub revision, or hashes the local files, once.

        Raises:
            SourceError: If the source is missing or cannot be read.
            HubError: If the Hub could not be reached.
        """

    @property
    def prompt_identity(self) -> PromptIdentity:
        """Exact identity of the prompts."""

    @property
    def sampling(self) -> SamplingParams:
        """Decoding settings of the benchmark."""

    def samples(self) -> Sequence[Sample]:
        """Return the validated questions, with the limit applied. Reads the source once.

        Raises:
            SourceError: If the data cannot be read, or the benchmark cannot use a row.
            HubError: If the Hub failed.
        """

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return the prompt: text for completion, messages for chat."""

    def labels(self, sample: Sample) -> tuple[str, ...]:
        """Return the continuations of the prompt to rank, such as ` A`; () if text is generated."""

    def ranking(self, sample: Sample) -> RankingRule:
        """Return the rule by which the labels become tokens."""

    def contexts(self, sample: Sample) -> tuple[str | tuple[Message, ...], ...]:
        """Return the prompt before each label if it is not the same for all of them, else ()."""

    @property
    def long_thoughts(self) -> bool:
        """True if model cards have more tokens for it than usual, as for competitions in mathematics and programming."""

    @property
    def cut(self) -> Cut | None:
        """Place at which a prompt that does not fit is cut without being asked to; None: it fails."""

    @property
    def cuts_when_scored(self) -> bool:
        """True if scoring applies the stop texts, so that a thought before the answer may hold them."""
