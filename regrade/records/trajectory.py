"""Actions of an agent after its prompt: messages of parts, as JSON in the column `trajectory`, and bounded."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from regrade.records.tools import arguments_of

PartKind = Literal["text", "reasoning", "image", "tool_call", "tool_result"]
_KINDS: Final[tuple[PartKind, ...]] = ("text", "reasoning", "image", "tool_call", "tool_result")
LONGEST_TEXT = 100_000
"""Longest text of a part, in characters; of longer ones the middle is left out."""
LARGEST = 4 * 2**20
"""Most bytes of a trajectory; if it has more, its longest texts are cut further."""
_SHORTEST_CUT = 500
"""Shortest text that is cut; a trajectory whose parts are all shorter and still too large is refused."""
MOST_PARTS = 20_000
"""Most messages, and most parts of all messages."""


class TrajectoryError(ValueError):
    """A trajectory is too large to store; the message says how large."""


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


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """A message of a trajectory."""

    role: str
    """`assistant`, `tool`, `user`, `system`, or another name that the tool gave."""
    parts: tuple[Part, ...]


def trajectory_text(messages: Sequence[TraceMessage]) -> str:
    """Return messages as the column stores them, with long texts cut.

    Raises:
        TrajectoryError: If there are too many parts.
    """
    count = len(messages) + sum(len(message.parts) for message in messages)
    if count > MOST_PARTS:
        raise TrajectoryError(
            f"a trajectory of {count:,} messages and parts; at most {MOST_PARTS:,} are stored"
        )
    longest = LONGEST_TEXT
    while True:
        text = json.dumps([_document(m, longest) for m in messages], ensure_ascii=False)
        stored = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        size = len(stored.encode())
        if size <= LARGEST:
            return stored
        if longest < 2 * _SHORTEST_CUT:
            raise TrajectoryError(
                f"a trajectory of {size:,} bytes with all texts cut; at most {LARGEST:,} are stored"
            )
        longest //= 2


def _document(message: TraceMessage, longest: int) -> dict[str, Any]:
    parts = []
    for part in message.parts:
        text, cut = shortened(part.text, longest)
        entry: dict[str, Any] = {"type": part.kind}
        if part.call is not None:
            entry["id"] = part.call
        if part.name is not None:
            entry["name"] = part.name
        if part.kind == "tool_call":
            entry["arguments"], cut = _bounded(part.arguments, longest)
        else:
            entry["text"] = text
        if part.is_error:
            entry["error"] = True
        if cut + part.cut:
            entry["cut"] = cut + part.cut
        parts.append(entry)
    return {"role": message.role, "parts": parts}


def _bounded(arguments: object, longest: int) -> tuple[object, int]:
    """Return arguments; as a text without its middle if they are too long."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    short, cut = shortened(text, longest)
    return (short, cut) if cut else (arguments, 0)


def shortened(text: str, longest: int) -> tuple[str, int]:
    """Return a text without its middle if it is longer than a number of characters, and the number of those left out."""
    if len(text) <= longest:
        return text, 0
    cut = len(text) - longest
    head = longest // 2
    return f"{text[:head]}\n[... {cut:,} characters left out ...]\n{text[head + cut :]}", cut


def read_trajectory(text: str | None) -> tuple[TraceMessage, ...] | None:
    """Return the messages of a text in the column; None if it is no such text, as in a file of strangers."""
    if text is None:
        return None
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or len(listed) > MOST_PARTS:
        return None
    messages = [_message(entry) for entry in listed]
    found = tuple(message for message in messages if message is not None)
    return found if len(found) == len(listed) else None


def _message(entry: object) -> TraceMessage | None:
    parts = entry.get("parts") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(entry.get("role"), str):
        return None
    if not isinstance(parts, list) or len(parts) > MOST_PARTS:
        return None
    read = [_part(part) for part in parts]
    found = tuple(part for part in read if part is not None)
    return TraceMessage(entry["role"], found) if len(found) == len(parts) else None


def _part(entry: object) -> Part | None:
    if not isinstance(entry, dict) or entry.get("type") not in _KINDS:
        return None
    kind, call, name = entry["type"], entry.get("id"), entry.get("name")
    text, cut = entry.get("text", ""), entry.get("cut", 0)
    if not isinstance(text, str) or not isinstance(cut, int):
        return None
    if not all(value is None or isinstance(value, str) for value in (call, name)):
        return None
    if kind == "tool_call" and (name is None or "arguments" not in entry):
        return None
    return Part(kind, text, call, name, entry.get("arguments"), entry.get("error") is True, cut)


def call_of(call: str | None, name: str, arguments: object) -> Part:
    """Return the part of a call.

    Args:
        call: Its id; None if it has none.
        name: Function.
        arguments: Text that the model wrote, or the object that was read from it.

    Raises:
        TrajectoryError: If the arguments are nested too deeply.
    """
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    except RecursionError as error:
        raise TrajectoryError("arguments that are nested too deeply") from error
    return Part("tool_call", call=call, name=name, arguments=arguments_of(text))


# Trajectories as plain text: for judges, and on a terminal.


def arguments_text(part: Part) -> str:
    """Return the arguments of a call as one text."""
    if isinstance(part.arguments, str):
        return part.arguments
    return json.dumps(part.arguments, ensure_ascii=False)


def plain_trajectory(messages: Iterable[TraceMessage], longest: int) -> str:
    """Return a trajectory as `role: text` paragraphs, without thoughts.

    Args:
        messages: The messages.
        longest: Longest text in characters; long parts are cut first, then the middle is left out.
    """
    listed = [_without_thoughts(message) for message in messages]
    each = longest
    while True:
        text = "\n\n".join(paragraph for m in listed for paragraph in _paragraphs(m, each))
        if len(text) <= longest:
            return text
        if each < 2 * _SHORTEST_CUT:
            return shortened(text, longest)[0]
        each //= 2


def _without_thoughts(message: TraceMessage) -> TraceMessage:
    return replace(message, parts=tuple(p for p in message.parts if p.kind != "reasoning"))


def _paragraphs(message: TraceMessage, longest: int) -> Iterator[str]:
    for part in message.parts:
        if part.kind == "tool_call":
            arguments, _ = shortened(arguments_text(part), longest)
            yield f"{message.role} calls {part.name}: {arguments}"
        elif part.kind == "tool_result":
            of = f" of {part.name}" if part.name else ""
            what = "error" if part.is_error else "result"
            yield f"{what}{of}: {shortened(part.text, longest)[0]}"
        elif part.text:
            yield f"{message.role}: {shortened(part.text, longest)[0]}"
