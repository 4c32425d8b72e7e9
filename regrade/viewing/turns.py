"""A prompt as the turns of a chat: messages, or the text that a chat template made of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

_TURN = re.compile(
    r"<\|im_start\|>(?P<chatml>\w+)[^\n]*\n?"
    r"|<\|start_header_id\|>(?P<llama3>\w+)<\|end_header_id\|>\n*"
    r"|<start_of_turn>(?P<gemma>\w+)\n?"
    r"|<\|start\|>(?P<harmony>\w+)[^<]{0,80}(?:<\|channel\|>\w+[^<]{0,80})?<\|message\|>"
    r"|<\|(?P<phi>system|user|assistant|tool|observation)\|>\n?"
    r"|<\uff5c(?P<deepseek>User|Assistant|System)\uff5c>"
    r"|\[/?(?P<mistral>INST|SYSTEM_PROMPT)\]"
)
"""Begin of a turn in the chat templates that most models use."""
_INST = {"[INST]": "user", "[/INST]": "assistant", "[SYSTEM_PROMPT]": "system"}


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of a prompt."""

    role: str
    """`user`, `assistant`, `system` and so on; empty for what stands before the first turn, or for a plain prompt."""
    text: str
    """Everything that was sent, with the tokens that begin and end the turn."""


def turns_of(prompt: str, kind: str | None, prompt_format: str | None) -> list[Turn]:
    """Return the turns of a prompt; together their texts are the whole prompt.

    Args:
        prompt: Stored prompt.
        kind: `messages` for messages as JSON; else it is text.
        prompt_format: `chat`, `completion`, or None if unknown: a completion prompt has no turns.
    """
    if kind == "messages" and (messages := _messages(prompt)):
        return messages
    if prompt_format == "completion":
        return [Turn("", prompt)]
    return list(_split(prompt))


def _messages(prompt: str) -> list[Turn] | None:
    """Return the messages in JSON; None if it is something else, which is then shown as it is."""
    try:
        messages = orjson.loads(prompt)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(messages, list) or not messages:
        return None
    turns = []
    for message in messages:
        if not isinstance(message, dict) or {*message} - {"type"} != {"role", "content"}:
            return None
        if message.get("type", "text") != "text":  # lm-evaluation-harness adds this type to each
            return None
        role, content = message["role"], message["content"]
        if not isinstance(role, str) or not isinstance(content, str):
            return None
        turns.append(Turn(role, content))
    return turns


def _split(prompt: str) -> Iterator[Turn]:
    found = [match for match in _TURN.finditer(prompt) if match[0] != "[/SYSTEM_PROMPT]"]
    if not found:
        yield Turn("", prompt)
        return
    if found[0].start():
        yield Turn("", prompt[: found[0].start()])
    ends = [*(match.start() for match in found[1:]), len(prompt)]
    for match, end in zip(found, ends, strict=True):
        role = _INST.get(match[0]) or next(name for name in match.groups() if name)
        yield Turn(role.lower(), prompt[match.start() : end])
