"""What every benchmark offers: questions, prompts, and all that identifies them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from regrade.records import Message, Sample
from regrade.settings import Method, PromptFormat, SamplingParams, ScorerName
from regrade.specification import BenchmarkIdentity, PromptIdentity


@dataclass(frozen=True, slots=True)
class BenchmarkCard:
    """What there is to know about a benchmark before it is opened."""

    name: str
    version: int
    description: str
    source: str
    """Hub dataset that it reads where no other source is given."""
    paper: str
    method: Method
    format: PromptFormat
    n_shots: int
    scorers: tuple[ScorerName, ...]


class Benchmark(Protocol):
    """Questions of one benchmark, with its prompts. Opening it is cheap; `samples` reads the data."""

    @property
    def name(self) -> str:
        """Name under which answers are kept."""

    @property
    def version(self) -> int:
        """Raised when prompts, targets or sample ids change."""

    @property
    def description(self) -> str:
        """What it asks, in one sentence."""

    @property
    def paper(self) -> str:
        """Address of the paper, or "" where there is none."""

    @property
    def method(self) -> Method:
        """`generate` text, or `rank` the labels of the choices."""

    @property
    def scorers(self) -> tuple[ScorerName, ...]:
        """Scorers that fit, the first of which gives the headline number."""

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Categories of subsets: name to subsets. Empty where there are none."""

    @property
    def identity(self) -> BenchmarkIdentity:
        """Which questions, exactly: resolves the Hub revision, or hashes the local files, once.

        Raises:
            SourceError: If the source is not there or cannot be read.
            HubError: If the Hub could not be asked.
        """

    @property
    def prompt_identity(self) -> PromptIdentity:
        """How questions become prompts, exactly."""

    @property
    def sampling(self) -> SamplingParams:
        """The benchmark's own decoding settings."""

    def samples(self) -> Sequence[Sample]:
        """Return the questions: validated, with the limit applied; read once.

        Raises:
            SourceError: If the data cannot be read, or a row is not what the benchmark needs.
            HubError: If the Hub failed.
        """

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return what to ask: text for completion, messages for chat. `samples` was called before."""

    def labels(self, sample: Sample) -> tuple[str, ...]:
        """Return the continuations to rank, as they follow the prompt; () where text is generated."""
