"""What every reader of a foreign format gives: rows, the original's own scores, and what the file says of itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from regrade.importing.files import SourceFile
from regrade.settings import Method, PromptFormat, Settings

FormatName = Literal[
    "lm-eval", "lighteval", "inspect", "opencompass", "zeroeval", "mmlu-pro", "handbook", "table"
]


class Columns(Settings):
    """Names of a table's columns; `a.b` is field `b` of column `a`, `a.0` the first element of list `a`."""

    text: str | None = None
    """Column with the answers: a text, or a list of texts for several answers to one question."""
    question: str | None = None
    """Column with what is asked, without examples and chat template."""
    prompt: str | None = None
    """Column with the prompt exactly as it was sent."""
    target: str | None = None
    """Column with the right answer; for choices an index (from 0), a letter or a text."""
    choices: str | None = None
    """Column with the list of choices."""
    subset: str | None = None
    """Column by which results are broken down."""
    score: str | None = None
    """Column with the original's own score of each answer: true or false, or a number from 0 to 1."""
    extracted: str | None = None
    """Column with what the original read out of each answer."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a person says about a table that does not describe itself."""

    columns: Columns = field(default_factory=Columns)
    target_after: str | None = None
    """The right answer is what follows the last of these in the target column, such as `####`."""


@dataclass(frozen=True, slots=True)
class Given:
    """The original's own score of one answer."""

    value: float | None
    """On the scale of its `OriginalScore`; None where the original has none."""
    extracted: str | None = None
    """What the original read out of the answer; None where it read nothing, or does not say."""
    unread: bool = False
    """Whether the original says that there was no answer to read."""


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """One answer, as far as the file knows it. None: the file does not say."""

    index: int
    """Row of the question in its split where the file says it, else in the file, from 0."""
    question: str
    """What is asked, in whatever form the file has it: the sample's id follows from it."""
    target: str | None
    text: str | None
    repeat: int = 0
    choices: tuple[str, ...] = ()
    subset: str = ""
    prompt: str | None = None
    prompt_kind: Literal["text", "messages"] = "text"
    reasoning: str | None = None
    label_logprobs: tuple[float, ...] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency: float | None = None
    """Seconds."""
    error: str | None = None
    given: Mapping[str, Given] = field(default_factory=dict)
    """The original's scores of this answer, by their names."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One number as the original reported it, which may be of more answers than the file holds."""

    value: float
    stderr: float | None = None
    n: int | None = None
    """Answers that it is over; None where the file does not say."""
    out_of: float = 1.0
    """What a perfect score is: 1, or 100 where percentages are reported."""


@dataclass(frozen=True, slots=True)
class OriginalScore:
    """One way in which the original scored its answers."""

    name: str
    """In the original's words, such as `exact_match,strict-match`."""
    reported: Reported | None = None
    low: float = 0.0
    """Worst value of its scale; values are kept as shares of the way from `low` to `high`."""
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class ImportedSet:
    """The answers of one model to one benchmark in a file. None: the file does not say."""

    rows: Sequence[ImportedRow]
    model: str | None
    benchmark: str | None
    n_samples: int | None = None
    """Questions of the whole run, of which the file may hold only some."""
    repeats: int | None = None
    """Answers per question of the whole run."""
    model_revision: str | None = None
    method: Method = "generate"
    format: PromptFormat | None = None
    n_shots: int | None = None
    system: str | None = None
    split: str | None = None
    config: str | None = None
    limit: int | None = None
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """What else the file says of how it came about (data set, sampling, version), under its own names."""
    originals: tuple[OriginalScore, ...] = ()
    """The first one is the original's headline."""


Reader = Callable[[SourceFile, TableOptions], ImportedSet]
