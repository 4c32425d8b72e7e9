"""Actions of an agent after its prompt: messages of parts, as JSON in the column `trajectory`, and bounded."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from regrade.records.characters import whole_characters
from regrade.records.messages import MOST_PARTS, Part, PartedMessage, message_of, short_text
from regrade.records.tools import arguments_of

LONGEST_TEXT = 100_000
"""Longest text of a part, in characters; of longer ones the middle is left out."""
LARGEST = 4 * 2**20
"""Most bytes of a trajectory; if it has more, its longest texts are cut further."""
_SHORTEST_CUT = 500
"""Shortest text that is cut; a trajectory whose parts are all shorter and still too large is refused."""


class TrajectoryError(ValueError):
    """A trajectory is too large to store; the message says how large."""


def trajectory_text(messages: Sequence[PartedMessage]) -> str:
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
        text = json.dumps([message_document(m, longest) for m in messages], ensure_ascii=False)
        stored = whole_characters(text)
        size = len(stored.encode())
        if size <= LARGEST:
            return stored
        if longest < 2 * _SHORTEST_CUT:
            raise TrajectoryError(
                f"a trajectory of {size:,} bytes with all texts cut; at most {LARGEST:,} are stored"
            )
        longest //= 2


def message_document(message: PartedMessage, longest: int = LONGEST_TEXT) -> dict[str, Any]:
    """Return a message as it is stored: `role` and `parts`, with texts of at most `longest` characters."""
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


def read_trajectory(text: str | None) -> tuple[PartedMessage, ...] | None:
    """Return the messages of a text in the column; None if it is no such text, as in a file of strangers."""
    if text is None:
        return None
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or len(listed) > MOST_PARTS:
        return None
    messages = [message_of(entry) for entry in listed]
    found = tuple(message for message in messages if message is not None)
    return found if len(found) == len(listed) else None


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


def plain_message(message: PartedMessage) -> str:
    """Return a message of a prompt without its role: its texts as they are, and words about everything else."""
    return "".join(
        f"[calls {part.name}: {arguments_text(part)}]"
        if part.kind == "tool_call"
        else short_text(part)
        for part in message.parts
        if part.kind != "reasoning"
    )


def plain_trajectory(messages: Iterable[PartedMessage], longest: int) -> str:
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


def _without_thoughts(message: PartedMessage) -> PartedMessage:
    return replace(message, parts=tuple(p for p in message.parts if p.kind != "reasoning"))


def _paragraphs(message: PartedMessage, longest: int) -> Iterator[str]:
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
