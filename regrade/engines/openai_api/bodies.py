"""What is sent to an OpenAI-compatible server, and what its answers mean."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from regrade.engines.openai_api.transport import RefusedError
from regrade.records import Completion, Request
from regrade.settings import SamplingParams

Body = dict[str, Any]

_NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Sampling params of vLLM that the OpenAI API does not have, and where they do nothing."""


def sampling_body(sampling: SamplingParams, *, is_vllm: bool) -> Body:
    """Return the sampling params as a server takes them.

    All that OpenAI knows is always sent: what is left out would be the server's own default (vLLM takes it from the
    model's generation_config.json). The rest is sent where it does something, and to vLLM always.
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
        if is_vllm or value != neutral:
            body[name] = value
    return body


def ranking_body(top: int, *, chat: bool) -> Body:
    """Return what asks for one greedy token with the likeliest `top` tokens in its place."""
    body: Body = {"temperature": 0.0, "max_tokens": 1}
    return body | ({"logprobs": True, "top_logprobs": top} if chat else {"logprobs": top})


ECHO_BODY: Body = {"temperature": 0.0, "max_tokens": 1, "echo": True, "logprobs": 1}
"""What asks for the log-probabilities of the prompt's own tokens."""


def sent(request: Request) -> dict[str, Any]:
    """Return the fields of a completion that say what was sent."""
    if isinstance(request.prompt, str):
        return {"key": request.key, "prompt": request.prompt, "prompt_kind": "text"}
    messages = orjson.dumps([dict(message) for message in request.prompt]).decode()
    return {"key": request.key, "prompt": messages, "prompt_kind": "messages"}


def choices(answer: Mapping[str, Any], expected: int) -> list[dict[str, Any]]:
    """Return the choices of an answer in the order of the prompts.

    Raises:
        RefusedError: If there are not as many as prompts.
    """
    found = answer.get("choices")
    if not isinstance(found, list) or len(found) != expected:
        raise RefusedError(None, f"The server's answer lacks its {expected} choices.")
    return sorted(found, key=lambda choice: int(choice.get("index", 0)))


def completion(
    request: Request, choice: Mapping[str, Any], usage: Mapping[str, Any], latency: float
) -> Completion:
    """Return the completion for one choice; `usage` is empty where it is of several prompts."""
    message = choice.get("message") or {}
    text = message.get("content") if "message" in choice else choice.get("text")
    return Completion(
        **sent(request),
        text=text or "",
        reasoning=message.get("reasoning_content") or message.get("reasoning"),
        finish_reason=choice.get("finish_reason"),
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        latency=latency,
    )


def top_logprobs(choice: Mapping[str, Any]) -> dict[str, float]:
    """Return the likeliest first tokens of a choice, as text to log-probability."""
    logprobs = choice.get("logprobs") or {}
    if "content" in logprobs:  # chat
        first = (logprobs["content"] or [{}])[0]
        return {entry["token"]: float(entry["logprob"]) for entry in first.get("top_logprobs", [])}
    tops = logprobs.get("top_logprobs") or [None]
    return {token: float(logprob) for token, logprob in (tops[0] or {}).items()}


def label_logprobs(top: Mapping[str, float], labels: Sequence[str]) -> tuple[float, ...] | None:
    """Return the log-probability of each label where each is one of the likeliest tokens; otherwise None."""
    if any(label not in top for label in labels):
        return None
    return tuple(top[label] for label in labels)


def echoed_logprob(choice: Mapping[str, Any], label: str) -> float | None:
    """Return the log-probability of a label at the end of an echoed prompt, or None where none was echoed.

    The tokens are counted back from the end, where one generated token follows the label: what a server puts
    before the prompt (a token for its beginning) is not known. A token that reaches into the label counts.
    """
    logprobs = choice.get("logprobs") or {}
    tokens, values = logprobs.get("tokens") or [], logprobs.get("token_logprobs") or []
    if len(tokens) < 2 or len(tokens) != len(values):
        return None
    left, used = len(label), []
    for token, value in zip(reversed(tokens[:-1]), reversed(values[:-1]), strict=True):
        if left <= 0:
            break
        if value is None:
            return None
        used.append(float(value))
        left -= len(token)
    return math.fsum(used) if left <= 0 else None
