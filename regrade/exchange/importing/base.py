"""Data types that every reader returns: rows, scores of the original tool, and metadata of the file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from regrade.exchange.importing.files import SourceFile
from regrade.records.images import Image
from regrade.records.messages import PartedMessage
from regrade.records.specification import PromptIdentity
from regrade.settings import Method, PromptFormat, ScorerName, Settings

FormatName = Literal[
    "lm-eval",
    "lighteval",
    "inspect",
    "opencompass",
    "zeroeval",
    "mmlu-pro",
    "handbook",
    "helm",
    "verifiers",
    "harbor",
    "terminal-bench",
    "swe-bench",
    "table",
]


class Columns(Settings):
    """Names of a table's columns; `a.b` is field `b` of `a`, `a[0]` the first element of list `a`, `a[*]` each element."""

    text: str | None = None
    """Column with the answers: a text, or a list of texts for several answers to one question."""
    question: str | None = None
    """Column with the question, without examples and chat template."""
    prompt: str | None = None
    """Column with the prompt exactly as it was sent."""
    target: str | None = None
    """Column with the right answer; for choices an index (from 0), a letter or a text."""
    choices: str | None = None
    """Column with the list of choices."""
    subset: str | None = None
    """Column by which results are broken down."""
    doc: str | None = None
    """Column with what a scorer reads beside the target, as JSON: tests of a program, as `{"tests": [{"source": "assert f(1) == 2"}]}` or
    `{"function": "f", "cases": [{"input": [1], "output": 2}]}`, instructions, criteria; or a row of their benchmark."""
    score: str | None = None
    """Column with the original tool's score of each answer: true or false, or a number from 0 to 1 or in `--score-range`."""
    extracted: str | None = None
    """Column with the final answer that the original tool extracted; without `score` it is compared with the target."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of the format `table`, and of rewards."""

    columns: Columns = field(default_factory=Columns)
    target_after: str | None = None
    """Text before the right answer in the target column, such as `####`; its last occurrence counts."""
    score_range: tuple[float, float] | None = None
    """Worst and best value of the table's score or of a reward; None: 0 and 1."""


@dataclass(frozen=True, slots=True)
class RowScore:
    """Score of one answer by the original tool."""

    value: float | None
    """Value on the scale of its `OriginalScore`; None if the tool gave no score."""
    extracted: str | None = None
    """Final answer that the tool extracted; None if it extracted or recorded none."""
    unread: bool = False
    """True if the tool recorded that it could not extract an answer."""


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """An answer and its question. None: not in the file."""

    index: int
    """Row of the question in its split, or in the file if the split is not recorded; from 0."""
    content: str
    """Identifying content of the question: its text if the file has it; the sample id is a hash of it."""
    target: str | int | float | None
    """Right answer as in the file; with choices, a number is an index from 0."""
    text: str | None
    question: str | None = None
    """Text of the question alone, without worked examples."""
    repeat: int = 0
    choices: tuple[str, ...] = ()
    subset: str = ""
    doc: str | None = None
    """Document that a scorer reads beside the target, as JSON."""
    prompt: str | None = None
    prompt_kind: Literal["text", "messages"] = "text"
    reasoning: str | None = None
    label_logprobs: tuple[float, ...] | None = None
    label_is_greedy: tuple[bool, ...] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency: float | None = None
    """Seconds."""
    error: str | None = None
    trajectory: tuple[PartedMessage, ...] | None = None
    """Actions of an agent after its prompt, its final message included."""
    scores: Mapping[str, RowScore] = field(default_factory=dict)
    """Scores of the original tool, by `OriginalScore.name`."""
    images: tuple[Image, ...] = ()
    """Images whose marks are in question and prompt."""
    stored: Mapping[str, Any] = field(default_factory=dict)
    """Columns of `GENERATION_SCHEMA` as regrade stored them before it exported the file; they override the fields above."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Mean score that the original tool reported; may include answers that are not in the file."""

    value: float
    stderr: float | None = None
    n: int | None = None
    """Number of answers; None if not in the file."""
    out_of: float = 1.0
    """Perfect score: 1, or 100 for percentages."""


@dataclass(frozen=True, slots=True)
class OriginalScore:
    """A metric of the original tool."""

    name: str
    """Name that the tool uses, such as `exact_match,strict-match`."""
    reported: Reported | None = None
    low: float = 0.0
    """Worst value of the scale. Values are stored as `(value - low) / (high - low)`."""
    high: float = 1.0
    """Best value of the scale."""
    by_target: bool = False
    """True if the tool recorded extracted answers and no values: each is compared with the target."""

    def refusal(self, value: float | None) -> str | None:
        """Return why a value is none of the scale that a user states; None if it is, or is missing."""
        if value is None or self.low <= value <= self.high:
            return None
        return (
            f"the score '{self.name}' is {value:g}, outside of {self.low:g} to {self.high:g}. State its worst and best value "
            "with `--score-range`."
        )


@dataclass(frozen=True, slots=True)
class ImportedSet:
    """Answers of one model to one benchmark, read from a file. None: not in the file."""

    rows: Sequence[ImportedRow]
    model: str | None
    benchmark: str | None
    n_samples: int | None = None
    """Questions of the whole run; the file may hold fewer."""
    repeats: int | None = None
    """Answers per question of the whole run."""
    model_revision: str | None = None
    method: Method = "generate"
    format: PromptFormat | None = None
    n_shots: int | None = None
    system: str | None = None
    prompt: PromptIdentity | None = None
    """All that regrade knew of the prompts when it exported the file; it overrides `format`, `n_shots` and `system`."""
    split: str | None = None
    config: str | None = None
    limit: int | None = None
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """Other metadata of the run (dataset, sampling, version), under the file's names."""
    originals: tuple[OriginalScore, ...] = ()
    """Metrics of the original tool, the main metric first."""
    scorer: ScorerName | None = None
    """Scorer that reads answers as the original tool does. None: the one that fits the targets."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Subsets of each category."""


Reader = Callable[[SourceFile, TableOptions], ImportedSet | list[ImportedSet]]
