"""Questions, requests to engines, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from regrade.records.images import Image
from regrade.settings import SamplingParams

Message = Mapping[str, str]
"""Chat message: `role` and `content`, a text in which marks show where images stand (`regrade.records.messages`)."""

MESSAGES = "messages"
"""Part of `Sample.doc` of a question that is a conversation: its turns, which a judge reads."""

LabelMethod = Literal["single_token", "per_choice"]

RankingRule = Literal["labels", "continuations", "text"]
"""Rule by which labels become tokens. `labels`: sums of log-probabilities begin at the same token for all of them.
`continuations`: each begins where lm-evaluation-harness lets it begin. `text`: the label is a whole text without a prompt, in
windows if it is longer than the context."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer that a model gave, to be read again."""

    text: str
    """The answer as it was stored, without its reasoning."""
    tokens: tuple[int, ...] | None
    """Tokens that the model gave; None if they were not stored."""
    rendered: bool
    """The prompt is a chat as its template wrote it, with all special tokens."""
    prompt_tokens: int | None
    """Tokens that the prompt had; None if they were not counted."""
    completion_tokens: int | None
    """Tokens that the answer had, with those of its end; None if they were not counted."""
    stops: bool
    """Stop texts may have ended the answer, whose tokens are not in the text."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Form that an answer must have. An engine uses the first of `choice`, `regex` and `schema` that is set and that it knows."""

    schema: Mapping[str, Any]
    """JSON schema of the answer."""
    regex: str = ""
    """Pattern of the whole answer, a text that fits `schema`; "" without one."""
    choice: tuple[str, ...] = ()
    """The only answers, which need not fit `schema`."""

    @property
    def of_vllm(self) -> dict[str, Any]:
        """The form as vLLM takes it (https://docs.vllm.ai/en/latest/features/structured_outputs.html)."""
        if self.choice:
            return {"choice": list(self.choice)}
        return {"regex": self.regex} if self.regex else {"json": dict(self.schema)}


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
    stored: StoredAnswer | None = None
    """An answer to it that is read, where none is asked for."""
    images: tuple[Image, ...] = ()
    """Images whose marks its texts may hold."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Functions that the model may call, in OpenAI's form."""
    by_repeat: tuple["Sample", ...] = ()
    """Question of each repeat, with the same id, if they differ."""
    previous: "Sample | None" = None
    """Turn before it in a conversation, whose answer the prompt holds; None: the first turn, or no conversation. The id is
    that of `regrade.settings.turn_ids`."""

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
    """Prompt before each label, if it is not the same for all of them. Not for the rule `labels`."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the chat template, such as `enable_thinking`."""
    day: date | None = None
    """Day that chat templates print as today; None: the real one."""
    structure: Structure | None = None
    """Form of the answer; None: free text."""
    reasons: bool = False
    """The model is expected to reason before its answer, which `structure` leaves free."""
    stored: StoredAnswer | None = None
    """An answer to read, instead of generating one. The prompt is its text, and there are no labels."""
    cut_middle: bool = False
    """Keep the two ends of a prompt that does not fit, even if prompts are not cut otherwise."""
    images: tuple[Image, ...] = ()
    """Images whose marks the prompt may hold."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Functions that the model may call, in OpenAI's form. The prompt is a chat."""
    later: tuple[str, ...] = ()
    """The user's turns that follow this one: their requests come once the answers before them are there, and need room in the
    context for all of them."""


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
    """Text before each label as it was sent, if it is not the same for all of them."""
    token_ids: tuple[int, ...] | None = None
    """Tokens of the answer as the model gave them, with those of its end; None: the engine does not tell them."""
    token_logprobs: tuple[float, ...] | None = None
    """Natural log-probability of each of these tokens, if a stored answer was read."""
    token_is_greedy: tuple[bool, ...] | None = None
    """For each of these tokens, True if no token was likelier."""
    tool_calls: str | None = None
    """Calls of the request's functions as JSON, see `regrade.records.tools.calls_text`; None if there were no functions."""
    prompt_truncated: bool = False
    error: str | None = None
    error_permanent: bool = False
    """Sending the request again cannot help."""
