"""Messages: a role and parts, which are texts, thoughts, images, calls of functions, and their results.

A stored message has a list of `parts`, or one text as its `content`, in which images stand as marks (`regrade.records.images`). Whatever
shows, judges, sends or exports messages gets their parts here, and nothing else reads marks.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import orjson

from regrade.records.images import Image, hashes_at
from regrade.records.patterns import compiled
from regrade.records.tools import read_calls

PartKind = Literal["text", "reasoning", "image", "tool_call", "tool_result"]
KINDS: Final[tuple[PartKind, ...]] = get_args(PartKind)
MOST_PARTS = 20_000
"""Most messages, and most parts of all messages."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a message."""

    kind: PartKind
    text: str = ""
    """Text of a text, a thought or a result; of an image its mark, or its address in the tool's files."""
    call: str | None = None
    """Id of the call, in the call and in its result."""
    name: str | None = None
    """Function of a call or a result."""
    arguments: Any = None
    """Arguments of a call: an object by the names of the parameters, or the text that the model wrote."""
    is_error: bool = False
    """The result is an error."""
    cut: int = 0
    """Characters that were left out in the middle of the text."""
    sha256: str | None = None
    """Hash of an image that is stored beside the answers, or in the dataset; None of other parts."""
    image: Image | None = field(default=None, repr=False, compare=False)
    """The image, in a message that was just read from another tool's file which has its bytes."""


@dataclass(frozen=True, slots=True)
class PartedMessage:
    """A message."""

    role: str
    """`assistant`, `tool`, `user`, `system`, or another name; "" of a prompt without turns."""
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Its texts and results of tools, one after the other, with marks of images: `content` of the stored message."""
        shown = ("text", "image", "tool_result")
        return "".join(part.text for part in self.parts if part.kind in shown)


def parts_of(text: str, images: Collection[str]) -> tuple[Part, ...]:
    """Return the parts of a text, in order: images where their marks stand, and the texts between them.

    Args:
        text: Any text.
        images: sha256 of its images; other marks are text.
    """
    parts, begin = [], 0
    for start, end, sha256 in hashes_at(text) if images else ():
        if sha256 not in images:
            continue
        if start > begin:
            parts.append(Part("text", text[begin:start]))
        parts.append(Part("image", text[start:end], sha256=sha256))
        begin = end
    if begin < len(text):
        parts.append(Part("text", text[begin:]))
    return tuple(parts)


def with_short_marks(text: str, images: Collection[str]) -> str:
    """Return a text in which `[image 0123abcd]` stands for each of its images, to be read where none can be shown."""
    return "".join(map(short_text, parts_of(text, images)))


def asked(row: Mapping[str, Any]) -> str | None:
    """Return what was asked of a stored row: the prompt, or the question where no prompt is stored, as of imported answers."""
    prompt: str | None = row["prompt"]
    return row["question"] if prompt is None else prompt


def short_text(part: Part) -> str:
    """Return the text of a part, or a few words that stand for a stored image."""
    return part.text if part.sha256 is None else f"[image {part.sha256[:8]}]"


def message_of(entry: object, images: Collection[str] = ()) -> PartedMessage | None:
    """Return a stored message; None if it is none, as in a file of strangers.

    Args:
        entry: `role`, and `parts` or `content`.
        images: sha256 of the images whose marks its `content` may hold.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("role"), str):
        return None
    listed = entry.get("parts")
    if listed is None and isinstance(entry.get("content"), str):
        return PartedMessage(entry["role"], parts_of(entry["content"], images))
    if not isinstance(listed, list) or len(listed) > MOST_PARTS:
        return None
    read = [_part(part, images) for part in listed]
    found = tuple(part for part in read if part is not None)
    return PartedMessage(entry["role"], found) if len(found) == len(read) else None


def _part(entry: object, images: Collection[str]) -> Part | None:
    if not isinstance(entry, dict) or entry.get("type") not in KINDS:
        return None
    kind, call, name = entry["type"], entry.get("id"), entry.get("name")
    text, cut = entry.get("text", ""), entry.get("cut", 0)
    if not isinstance(text, str) or not isinstance(cut, int):
        return None
    if not all(value is None or isinstance(value, str) for value in (call, name)):
        return None
    if kind == "tool_call" and (name is None or "arguments" not in entry):
        return None
    shown = parts_of(text, images) if kind == "image" else ()
    sha256 = shown[0].sha256 if len(shown) == 1 else None
    is_error = entry.get("error") is True
    return Part(kind, text, call, name, entry.get("arguments"), is_error, cut, sha256)


# The prompt of a row: messages, or the text that a chat template made of them.

_TURN = compiled(
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


def prompt_messages(
    prompt: str, kind: str | None, prompt_format: str | None, images: Collection[str] | None = None
) -> list[PartedMessage]:
    """Return the messages of a prompt; of a text together their texts are the whole prompt.

    Args:
        prompt: Stored prompt.
        kind: `messages` for messages as JSON; else it is text.
        prompt_format: `chat`, `completion`, or None if unknown: a completion prompt has no turns.
        images: Column `images` of its row.
    """
    shown = images or ()
    if kind == "messages" and (messages := _messages(prompt, shown)):
        return messages
    turns = [("", prompt)] if prompt_format == "completion" else _turns(prompt)
    return [PartedMessage(role, parts_of(text, shown)) for role, text in turns]


def _messages(prompt: str, images: Collection[str]) -> list[PartedMessage] | None:
    """Return the messages in JSON; None if it is something else, which is then shown as it is."""
    try:
        listed = orjson.loads(prompt)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(listed, list) or not listed:
        return None
    messages = []
    for entry in listed:
        # lm-evaluation-harness adds a type to each.
        if not isinstance(entry, dict) or not {*entry} <= {"role", "content", "parts", "type"}:
            return None
        message = message_of(entry, images)
        if message is None or entry.get("type", "text") != "text":
            return None
        messages.append(message)
    return messages


def _turns(prompt: str) -> Iterator[tuple[str, str]]:
    found = [match for match in _TURN.finditer(prompt) if match[0] != "[/SYSTEM_PROMPT]"]
    if not found:
        yield "", prompt
        return
    if found[0].start():
        yield "", prompt[: found[0].start()]
    ends = [*(match.start() for match in found[1:]), len(prompt)]
    for match, end in zip(found, ends, strict=True):
        role = _INST.get(match[0]) or next(name for name in match.groups() if name)
        yield role.lower(), prompt[match.start() : end]


def answer_message(row: Mapping[str, Any]) -> PartedMessage:
    """Return an answer as a message of the model: its thought, its text and its calls.

    Args:
        row: Columns `reasoning`, `text` and `tool_calls`.
    """
    parts = [Part("reasoning", row["reasoning"])] if row["reasoning"] is not None else []
    calls = read_calls(row["tool_calls"]) if row["tool_calls"] is not None else None
    parts.append(Part("text", row["text"] or ""))
    for number, call in enumerate(calls or (), 1):
        known = f"call-{number}"
        parts.append(Part("tool_call", call=known, name=call.name, arguments=call.arguments))
    return PartedMessage("assistant", tuple(parts))
