"""Calls of tools in answers: the text in the column `tool_calls`, and reading it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from regrade.records.characters import whole_characters

TOOLS = "tools"
"""Key in a question's `doc` with the functions that the model may call."""
MOST_CALLS = 1_000
"""Most calls of an answer that are stored and read."""
MOST_NESTED = 100
"""Most lists and objects within each other in arguments: Python reads and writes about a thousand, less in a deep call of its own."""
_TOO_DEEP = f"arguments of more than {MOST_NESTED} lists and objects within each other"


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
    return whole_characters(json.dumps(listed, ensure_ascii=False))


def read_calls(text: str) -> list[ToolCall] | None:
    """Return the calls of a text in the column; None if it is no such text, as in a file of strangers.

    Text that is nested too deeply is one call of nothing: no function takes it.
    """
    try:
        listed = json.loads(text)
        if "\\ud" in text.lower():  # maybe half of a character, written as JSON
            listed = json.loads(whole_characters(json.dumps(listed, ensure_ascii=False)))
    except RecursionError:
        return [ToolCall("", _TOO_DEEP)]
    except ValueError:
        return None
    if not isinstance(listed, list) or len(listed) > MOST_CALLS:
        return None
    calls = [
        ToolCall(call["name"], _TOO_DEEP if _is_deep(call["arguments"]) else call["arguments"])
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
    return value if isinstance(value, dict) and not _is_deep(value) else text


def _is_deep(value: object) -> bool:
    """Return True if more lists and objects are within each other than are read."""
    level = [value]
    for _ in range(MOST_NESTED):
        level = [inner for outer in level for inner in _members(outer)]
        if not level:
            return False
    return True


def _members(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity, which are no JSON
