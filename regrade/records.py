"""Core data types and the Arrow schemas of stored files.

docs/answer-format.md describes every column; a test compares that page with the schemas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

import orjson
import pyarrow as pa

from regrade.settings import SamplingParams

SCHEMA_VERSION = 3
_ADDED_IN_2 = ("question", "finished_at", "error_permanent", "start", "end")
_ADDED_IN_3 = ("doc", "continuations", "contexts", "label_is_greedy", "metrics")
ADDED_COLUMNS = frozenset({*_ADDED_IN_2, *_ADDED_IN_3})
"""Columns that a later version added; they are null where an older file is read."""

KEYS = ("sample_id", "repeat")
"""Columns that identify a row."""

Message = Mapping[str, str]
"""Chat message: `role` and `content`."""

LabelMethod = Literal["single_token", "per_choice"]

RankingRule = Literal["labels", "continuations", "text"]
"""Rule by which labels become tokens. `labels`: sums of log-probabilities begin at the same token for all of them.
`continuations`: each begins where lm-evaluation-harness lets it begin. `text`: the label is a whole text without a prompt, in
windows if it is longer than the context."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Form that an answer must have. An engine uses the first of `choice`, `regex` and `schema` that is set and that it knows."""

    schema: Mapping[str, Any]
    """JSON schema of the answer."""
    regex: str = ""
    """Pattern of the whole answer, a text that fits `schema`; "" without one."""
    choice: tuple[str, ...] = ()
    """The only answers, which need not fit `schema`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Question of a benchmark."""

    id: str
    """Hash of question, choices, target and subset; repeated questions get `-2`, `-3` ... appended."""
    index: int
    """Row in the source's split, from 0."""
    target: str
    """Right answer; for multiple choice the letter (`A` is the first choice)."""
    fields: Mapping[str, Any]
    """Row of the source, from which the prompt is made."""
    subset: str = ""
    """Part of the benchmark with separate results, such as the MMLU subject."""
    choices: tuple[str, ...] = ()
    question: str | None = None
    """Text of the question alone; None if the source has no such text."""
    doc: Mapping[str, Any] | str | None = None
    """Parts of the question that a scorer needs beside the target, such as the tests of a programming task: JSON values, or
    JSON text if the order of its keys matters."""
    continuations: tuple[str, ...] = ()
    """Continuations that are ranked, if they are not the letters of the choices."""
    structure: Structure | None = None
    """Form of the answer; None: free text."""
    error: str | None = None
    """Reason why the question cannot be asked: its row fails without a request, and is never asked again."""
    by_repeat: tuple["Sample", ...] = ()
    """Question of each repeat, with the same id, if they differ."""

    def of_repeat(self, repeat: int) -> "Sample":
        """Return the question of a repeat."""
        return self.by_repeat[repeat] if self.by_repeat else self


@dataclass(frozen=True, slots=True)
class Request:
    """Request to an engine."""

    key: int
    """Identifies the request within a call of the engine."""
    prompt: str | tuple[Message, ...]
    """Plain text, or messages for the chat template."""
    sampling: SamplingParams
    """All decoding settings, with the seed of this request."""
    labels: tuple[str, ...] = ()
    """Continuations of the prompt, such as ` A`, to rank by log-probability instead of generating text."""
    ranking: RankingRule = "labels"
    contexts: tuple[str | tuple[Message, ...], ...] = ()
    """Prompt before each label, where it is not the same for all of them. Not for the rule `labels`."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the chat template, such as `enable_thinking`."""
    day: date | None = None
    """Day that chat templates print as today; None: the real one."""
    structure: Structure | None = None
    """Form of the answer; None: free text."""
    reasons: bool = False
    """The model is expected to reason before its answer, which `structure` leaves free."""


REFUSAL = "The model refused to answer"
"""Begin of the error of a `Completion` whose model declined, as its server says."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Result of a request to an engine; `error` is set if the request failed."""

    key: int
    prompt: str
    """Prompt as it was sent: the text after the chat template, or the messages as JSON."""
    prompt_kind: Literal["text", "messages"] = "text"
    text: str | None = None
    reasoning: str | None = None
    """Reasoning before the text, if the engine tells it apart."""
    reasoning_open: bool | None = None
    """The reasoning never ended, so that there is no text after it. None: the engine does not tell it apart."""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    time_to_first_token: float | None = None
    """Seconds from submission to the engine until the first token."""
    latency: float | None = None
    """Seconds from submission to the engine until the answer was complete."""
    label_logprobs: tuple[float, ...] | None = None
    """Natural log-probability of each label as the continuation, in the order of `labels`."""
    label_method: LabelMethod | None = None
    label_is_greedy: tuple[bool, ...] | None = None
    """For each label, True if greedy decoding would give it; None if the engine was not asked."""
    contexts: tuple[str, ...] | None = None
    """Text before each label as it was sent, where it is not the same for all of them."""
    prompt_truncated: bool = False
    error: str | None = None
    error_permanent: bool = False
    """Sending the request again cannot help."""


_GENERATION_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("sample_id", pa.string(), nullable=False),
    pa.field("index", pa.int32(), nullable=False),
    pa.field("repeat", pa.int32(), nullable=False),
    pa.field("subset", pa.string(), nullable=False),
    pa.field("question", pa.string()),
    pa.field("prompt", pa.string()),
    pa.field("prompt_kind", pa.string()),
    pa.field("prompt_truncated", pa.bool_()),
    pa.field("reasoning_open", pa.bool_(), nullable=False),
    pa.field("target", pa.string()),
    pa.field("choices", pa.list_(pa.field("element", pa.string())), nullable=False),
    pa.field("doc", pa.string()),
    pa.field("continuations", pa.list_(pa.field("element", pa.string()))),
    pa.field("contexts", pa.list_(pa.field("element", pa.string()))),
    pa.field("text", pa.string()),
    pa.field("reasoning", pa.string()),
    pa.field("label_logprobs", pa.list_(pa.field("element", pa.float64()))),
    pa.field("label_method", pa.string()),
    pa.field("label_is_greedy", pa.list_(pa.field("element", pa.bool_()))),
    pa.field("finish_reason", pa.string()),
    pa.field("prompt_tokens", pa.int32()),
    pa.field("completion_tokens", pa.int32()),
    pa.field("time_to_first_token", pa.float64()),
    pa.field("latency", pa.float64()),
    pa.field("finished_at", pa.float64()),
    pa.field("error", pa.string()),
    pa.field("error_permanent", pa.bool_()),
]

GENERATION_SCHEMA = pa.schema(
    _GENERATION_FIELDS,
    metadata={"regrade_schema_version": str(SCHEMA_VERSION)},
)
"""One row per sample and repeat."""

Outcome = Literal[
    "scored", "unparsed", "unfinished", "timeout", "measured", "refused", "truncated", "failed"
]
"""`scored`: a value was read from the answer. `unparsed`: none could be read; the answer counts as wrong.
`unfinished`: the model's reasoning never ended, so that there is nothing to read; it counts as wrong.
`timeout`: the scorer did not come to a result within its limits of time and memory; it counts as wrong.
`measured`: the answer has `metrics`, such as a perplexity, but no value from 0 to 1, which is therefore null.
In judge runs `unparsed` has no value and is not counted, and two more outcomes are told apart, without a value: `refused`, the
judge declined to answer; `truncated`, the reply was cut off before its verdict.
`failed`: there is no answer because the request failed, or no target to compare with; its value is null and it is not
counted."""

_SCORE_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("sample_id", pa.string(), nullable=False),
    pa.field("repeat", pa.int32(), nullable=False),
    pa.field("subset", pa.string(), nullable=False),
    pa.field("value", pa.float64()),
    pa.field("extracted", pa.string()),
    pa.field("start", pa.int32()),
    pa.field("end", pa.int32()),
    pa.field("outcome", pa.string(), nullable=False),
    pa.field("truncated", pa.bool_(), nullable=False),
]

SCORE_SCHEMA = pa.schema(
    _SCORE_FIELDS,
    metadata={"regrade_schema_version": str(SCHEMA_VERSION)},
)
"""Scores as scorers return them: one row per generation, in the same order."""

SCORING_SCHEMA = SCORE_SCHEMA.append(pa.field("metrics", pa.string()))
"""Scores as they are stored: also the named values of each row, as a JSON object; null if the scorer has none."""


def json_text(value: Mapping[str, Any]) -> str:
    """Return a mapping as JSON with sorted keys, as columns store it."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def doc_text(sample: Sample) -> str | None:
    """Return the value of the column `doc`."""
    return json_text(sample.doc) if isinstance(sample.doc, Mapping) else sample.doc


def generation_row(
    sample: Sample, repeat: int, completion: Completion, finished_at: float | None = None
) -> dict[str, Any]:
    """Return the row of `GENERATION_SCHEMA` for a completion.

    Args:
        sample: The question.
        repeat: Number of the answer to it.
        completion: Result of the request.
        finished_at: Seconds from the start of the session's generation; None: unknown.
    """
    return {
        "sample_id": sample.id,
        "index": sample.index,
        "repeat": repeat,
        "subset": sample.subset,
        "question": sample.question,
        "prompt": completion.prompt,
        "prompt_kind": completion.prompt_kind,
        "prompt_truncated": completion.prompt_truncated,
        "reasoning_open": completion.prompt.rstrip().endswith("<think>")
        if completion.reasoning_open is None
        else completion.reasoning_open,
        "target": sample.target,
        "choices": list(sample.choices),
        "doc": doc_text(sample),
        "continuations": list(sample.continuations) or None,
        "contexts": None if completion.contexts is None else list(completion.contexts),
        "text": completion.text,
        "reasoning": completion.reasoning,
        "label_logprobs": None
        if completion.label_logprobs is None
        else list(completion.label_logprobs),
        "label_method": completion.label_method,
        "label_is_greedy": None
        if completion.label_is_greedy is None
        else list(completion.label_is_greedy),
        "finish_reason": completion.finish_reason,
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens,
        "time_to_first_token": completion.time_to_first_token,
        "latency": completion.latency,
        "finished_at": finished_at,
        "error": completion.error,
        "error_permanent": None if completion.error is None else completion.error_permanent,
    }
