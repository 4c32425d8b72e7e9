"""Build request bodies for an OpenAI-compatible server and parse its responses."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from regrade.engines.base import before_stop
from regrade.engines.openai_api.streaming import as_text
from regrade.engines.openai_api.transport import RefusedError
from regrade.records import REFUSAL, Completion, Request, Structure
from regrade.records.images import Image
from regrade.records.messages import Part, parts_of
from regrade.records.tools import MOST_CALLS, calls_text
from regrade.settings import SamplingParams

Body = dict[str, Any]

RENAMED = {"max_tokens": "max_completion_tokens"}
"""Newer name of a field, which OpenAI's reasoning models demand
(https://platform.openai.com/docs/api-reference/chat/create)."""
_LEFT_OUT = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop")
"""Fields that are not sent to a server that refuses them; stop texts are applied to its answer."""
_NOT_KNOWN = re.compile(
    r"unsupported|not supported|not support|unrecogni[sz]ed|unknown|unexpected|extra (inputs|fields)|not permitted|"
    r"not allowed|deprecated",
    re.IGNORECASE,
)
"""Words with which servers refuse a field or its value, whatever the prompt."""
_NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "thinking_token_budget": None}
"""vLLM-only sampling params, with the value that disables each."""


def sampling_body(sampling: SamplingParams, *, is_vllm: bool) -> Body:
    """Return the sampling params as fields of a request body.

    OpenAI's params are always sent, because a server replaces a missing one by its default (vLLM reads defaults from
    the model's generation_config.json). vLLM-only params are sent to vLLM, and to other servers if they have an effect.
    """
    body: Body = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }
    if sampling.temperature > 0:
        body["seed"] = sampling.seed
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    for name, neutral in _NEUTRAL.items():
        value = getattr(sampling, name)
        if value is not None and (is_vllm or value != neutral):
            body[name] = value
    return body


def refused_field(error: RefusedError, body: Body) -> str | None:
    """Return the field of a body that a server refuses for all prompts, and without which it can be asked; else None."""
    if error.status not in (400, 422) or error.too_long or not _NOT_KNOWN.search(error.message):
        return None
    named = error.field or error.message
    places = {
        name: found.start()
        for name in (*RENAMED, *_LEFT_OUT)
        if name in body and (found := re.search(rf"\b{name}\b", named)) is not None
    }
    return min(places, key=places.__getitem__, default=None)


def structure_body(structure: Structure | None, *, is_vllm: bool, chat: bool) -> Body:
    """Return the request fields that keep an answer to a form.

    vLLM's server knows choices and patterns; other servers know a JSON schema (https://platform.openai.com/docs/guides/structured-outputs), for chats only.

    Raises:
        RefusedError: If the server has no field for it.
    """
    if structure is None:
        return {}
    if is_vllm:
        return {"structured_outputs": structure.of_vllm}
    if not chat:
        raise RefusedError(
            None, "Only servers of vLLM keep completions to a form. Use `prompt.format=chat`."
        )
    schema = {"name": "answer", "schema": dict(structure.schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


STREAMING: tuple[Body, ...] = (
    {"stream": True, "stream_options": {"include_usage": True}},
    {"stream": True},
    {},
)
"""Fields that request a streamed answer; a server that rejects some of them gets the next."""


def ranking_body(top: int, *, chat: bool) -> Body:
    """Return the fields that request one greedy token and the `top` likeliest tokens at its position."""
    body: Body = {"temperature": 0.0, "max_tokens": 1}
    return body | ({"logprobs": True, "top_logprobs": top} if chat else {"logprobs": top})


ECHO_BODY: Body = {"temperature": 0.0, "max_tokens": 1, "echo": True, "logprobs": 1}
"""Fields that request the log-probabilities of the prompt's tokens."""


def prompt_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a completion that record the request: key and prompt."""
    if isinstance(request.prompt, str):
        return {"key": request.key, "prompt": request.prompt, "prompt_kind": "text"}
    messages = orjson.dumps([dict(message) for message in request.prompt]).decode()
    return {"key": request.key, "prompt": messages, "prompt_kind": "messages"}


def messages_body(request: Request) -> list[Body]:
    """Return the messages of a chat; a text with images becomes a list of parts.

    https://platform.openai.com/docs/guides/images-vision has the form of an image.
    """
    messages = [dict[str, Any](turn) for turn in request.prompt if not isinstance(turn, str)]
    images = {image.sha256: image for image in request.images}
    for message in messages if images else ():
        parts = parts_of(message["content"], images)
        if any(part.sha256 for part in parts):
            message["content"] = [_part(part, images) for part in parts]
    return messages


def _part(part: Part, images: Mapping[str, Image]) -> Body:
    if part.sha256 is None:
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": images[part.sha256].data_uri}}


def ordered_choices(response: Mapping[str, Any], expected: int) -> list[dict[str, Any]]:
    """Return the choices of a response in the order of the prompts.

    Raises:
        RefusedError: If their number is not `expected`, or two have the same index.
    """
    choices = {int(choice.get("index", 0)): choice for choice in response.get("choices") or []}
    found = len(response.get("choices") or [])
    if found != expected:
        raise RefusedError(
            None, f"The server's response has {found} choices instead of {expected}."
        )
    if len(choices) != expected:
        raise RefusedError(None, "The server's response has several choices of the same index.")
    return [choice for _, choice in sorted(choices.items())]


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """Times of an answer as its client saw them, in seconds since its request was first sent."""

    latency: float
    """Until the response had ended."""
    chunks: tuple[float, ...] = ()
    """Until each chunk with text; empty if the answer was not streamed, or has no text."""

    @property
    def first(self) -> float | None:
        """Time to the first chunk."""
        return self.chunks[0] if self.chunks else None


def chunk_times(
    response: Mapping[str, Any], choice: Mapping[str, Any], latency: float
) -> ChunkTimes:
    """Return the times of a choice; those of a request that was sent again begin with its first attempt.

    Args:
        response: The response.
        choice: One of its choices.
        latency: Seconds from the first attempt until the response had ended.
    """
    before = latency - float(response.get("seconds", latency))
    return ChunkTimes(latency, tuple(before + chunk for chunk in choice.get("chunks", ())))


def is_stopped_thought(response: Mapping[str, Any]) -> bool:
    """Return True if the answer to a chat ended in its reasoning, before the limit of tokens."""
    [choice] = ordered_choices(response, 1)
    message = choice.get("message") or {}
    content = message.get("content") or ""
    without_answer = isinstance(content, str) and not content.strip()
    return without_answer and choice.get("finish_reason") == "stop" and bool(reasoning_of(message))


def reasoning_of(message: Mapping[str, Any]) -> object:
    """Return the reasoning before an answer, if the server separates it; text unless the server errs."""
    return message.get("reasoning_content") or message.get("reasoning")


def completion(
    request: Request, choice: Mapping[str, Any], usage: Mapping[str, Any], times: ChunkTimes
) -> Completion:
    """Return the completion for a choice; `usage` is empty if the request had several prompts.

    Args:
        request: The request.
        choice: Its choice in the response.
        usage: Numbers of tokens.
        times: `chunk_times` of the choice.

    Raises:
        RefusedError: If the answer is no text.
    """
    message = choice.get("message") or {}
    if request.structure is not None and message.get("refusal"):
        refusal = f"{REFUSAL}: {message['refusal']}"
        return Completion(**prompt_fields(request), error=refusal, error_permanent=True)
    if not {"message", "text"} & choice.keys():
        raise RefusedError(None, "The server's response has neither a message nor a text.")
    content = message.get("content") if "message" in choice else choice["text"]
    try:
        text = as_text(content)
        reasoning = as_text(reasoning_of(message)) or None
        calls = tool_calls(message) if request.tools else None
    except ValueError as error:
        raise RefusedError(None, str(error)) from error
    # Stop texts are not sent to a server that could apply them to the reasoning, or that refuses them.
    cut = before_stop(text, request.sampling.stop, after_reasoning=True)
    return Completion(
        **prompt_fields(request),
        text=cut,
        reasoning=reasoning,
        reasoning_open=not text if reasoning else None,
        finish_reason=choice.get("finish_reason") if cut == text else "stop",
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        time_to_first_token=times.first,
        latency=times.latency,
        tool_calls=calls,
    )


def tool_calls(message: Mapping[str, Any]) -> str:
    """Return the calls of a message as the column `tool_calls` stores them.

    Raises:
        ValueError: If the server sent something else.
    """
    listed = message.get("tool_calls") or []
    calls = []
    for call in listed if isinstance(listed, list) else [None]:
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str):
            raise ValueError(f"The server sent {listed!r:.100} instead of calls of functions")
        calls.append((name, as_text(function.get("arguments"))))
    if len(calls) > MOST_CALLS:
        raise ValueError(f"The answer has {len(calls):,} calls; at most {MOST_CALLS:,} are read")
    return calls_text(calls)


def label_logprobs(choice: Mapping[str, Any], labels: Sequence[str]) -> tuple[float, ...] | None:
    """Return the log-probability of each label, or None if a label is not among the likeliest first tokens of a choice."""
    logprobs = choice.get("logprobs") or {}
    if "content" in logprobs:  # chat
        first = (logprobs["content"] or [{}])[0]
        top = {entry["token"]: entry["logprob"] for entry in first.get("top_logprobs") or []}
    else:
        top = (logprobs.get("top_logprobs") or [None])[0] or {}
    return tuple(float(top[label]) for label in labels) if {*labels} <= top.keys() else None


def echoed_logprob(choice: Mapping[str, Any], label: str) -> float | None:
    """Return the log-probability of a label at the end of an echoed prompt, or None if it was not echoed.

    Tokens are counted from the end, because the server may put special tokens before the prompt. The last token is
    the generated one. A token that overlaps the beginning of the label counts as part of the label.
    """
    logprobs = choice.get("logprobs") or {}
    tokens, values = logprobs.get("tokens") or [], logprobs.get("token_logprobs") or []
    if len(tokens) < 2 or len(tokens) != len(values):
        return None
    missing_characters, label_values = len(label), []
    for token, value in zip(reversed(tokens[:-1]), reversed(values[:-1]), strict=True):
        if missing_characters <= 0:
            break
        if value is None:
            return None
        label_values.append(float(value))
        missing_characters -= len(token)
    return math.fsum(label_values) if missing_characters <= 0 else None
