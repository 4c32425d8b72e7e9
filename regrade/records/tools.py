"""Calls of tools in answers: the text in the column `tool_calls`, and reading it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TOOLS = "tools"
"""Key in a question's `doc` with the functions that the model may call."""
MOST_CALLS = 1_000
"""Most calls of an answer that are stored and read."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asked for."""

    name: str
    arguments: Any
    """An object by the names of the parameters; the text that the model wrote if that is no JSON object."""


def calls_text(calls: Iterable[tuple[str, str]]) -> str:
    """Return calls as the column stores them: a JSON list of `name` and `arguments`.

    Args:
        calls: Pairs of a name and the arguments as the model wrote them.
    """
    listed = [{"name": name, "arguments": arguments_of(text)} for name, text in calls]
    text = json.dumps(listed, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character, which no column can hold
        return json.dumps(listed)
    return text


def read_calls(text: str) -> list[ToolCall] | None:
    """Return the calls of a text in the column; None if it is no such text, as in a file of strangers."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or len(listed) > MOST_CALLS:
        return None
    calls = [
        ToolCall(call["name"], call["arguments"])
        for call in listed
        if isinstance(call, dict) and isinstance(call.get("name"), str) and "arguments" in call
    ]
    return calls if len(calls) == len(listed) else None


def arguments_of(text: str) -> Any:  # noqa: ANN401 - any JSON object
    """Return the object in a text, or the text if it is none that JSON can hold again."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        json.dumps(value)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _refuse(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity, which are no JSON
