"""Functions that a question offers to the model, and the calls that are right."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.targets import RowError

Tool = dict[str, Any]
"""A function in OpenAI's form: `{"type": "function", "function": {...}}`."""

_OPENAI = {
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("number", "float", "double"), "number"),
    **dict.fromkeys(("string", "char", "any", "Any", "String"), "string"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "ArrayList", "Array", "Queue", "Stack"), "array"),
    **dict.fromkeys(("dict", "object", "HashMap", "Hashtable"), "object"),
}
"""JSON schema's type of each type of BFCL, as its `GORILLA_TO_OPENAPI` has it; others are strings."""
_FUNCTION = (
    'a list of functions with a `name` and `parameters`, a JSON schema; also as `{"type": "function", "function": {...}}`, or as '
    "JSON text"
)


def tools_of(index: int, column: str, value: object) -> tuple[Tool, ...]:
    """Return the functions in a column, in OpenAI's form.

    BFCL's own types and the dots in its names are replaced as it does for models that take tools.

    Raises:
        RowError: If it is no list of functions, or two have the same name.
    """
    listed = _parsed(value)
    tools = [_tool(entry) for entry in listed] if isinstance(listed, list) else []
    known = [tool for tool in tools if tool is not None]
    if not known or len(known) < len(tools):
        raise RowError(index, f"column '{column}' is {str(value)[:200]!r}; expected {_FUNCTION}")
    names = [tool["function"]["name"] for tool in known]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RowError(index, f"column '{column}' has two functions '{twice}'; expected one")
    return tuple(known)


def expected_calls(index: int, column: str, value: object, tools: Sequence[Tool]) -> str:
    """Return the right calls in a column, as JSON text, with the names that the model is given.

    Raises:
        RowError: If it is no list of calls with alternatives, or a function is not among those of the question.
    """
    listed = _parsed(value)
    names = {tool["function"]["name"] for tool in tools}
    calls = []
    for call in listed if isinstance(listed, list) else [None]:
        parameters = next(iter(call.values())) if isinstance(call, dict) and len(call) == 1 else 0
        if not isinstance(call, dict) or not _are_alternatives(parameters):
            raise RowError(
                index,
                f"the target (column '{column}') is {str(value)[:200]!r}; expected a list of right calls, each as "
                '`{"function": {"parameter": [alternatives]}}`, or an empty list if no call is right',
            )
        [name] = map(str, call)
        given = name if name in names else name.replace(".", "_")
        if given not in names:
            raise RowError(
                index,
                f"the target (column '{column}') calls '{name}', but the question has {', '.join(sorted(names))}",
            )
        calls.append({given: parameters})
    return json.dumps(calls, ensure_ascii=False)


def _are_alternatives(parameters: object) -> bool:
    return isinstance(parameters, dict) and all(
        isinstance(alternatives, list) for alternatives in parameters.values()
    )


def _parsed(value: object) -> object:
    """Return a value, parsed if it is a text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _tool(entry: object) -> Tool | None:
    """Return a function in OpenAI's form; None if it is none."""
    if isinstance(entry, str):
        entry = _parsed(entry)  # a list of texts, which columns of Arrow can hold
    if not isinstance(entry, Mapping):
        return None
    if entry.get("type") == "function" and isinstance(entry.get("function"), Mapping):
        return _openai(entry["function"])
    parameters = entry.get("parameters")
    if not isinstance(parameters, Mapping) or parameters.get("type") != "dict":
        return _openai(entry)
    function = copy.deepcopy(dict(entry))
    properties = function["parameters"].get("properties", {})
    if not isinstance(function.get("name"), str) or not isinstance(properties, dict):
        return None
    function["name"] = function["name"].replace(".", "_")
    function["parameters"] |= {"type": "object", "properties": properties}
    return _openai(function) if all(map(_convert, properties.values())) else None


def _openai(function: Mapping[str, Any]) -> Tool | None:
    parameters = function.get("parameters", {})
    name = function.get("name")
    if not isinstance(name, str) or not name or not isinstance(parameters, Mapping):
        return None
    properties = parameters.get("properties", {})
    if not isinstance(properties, Mapping) or not isinstance(parameters.get("required", []), list):
        return None
    return {"type": "function", "function": dict(function)}


def _convert(schema: object, *, is_property: bool = True) -> bool:
    """Give a schema and what it holds JSON schema's types; return False if it is no schema.

    Args:
        schema: It is changed.
        is_property: It is that of a named value: of a float, BFCL says so in the description, too.
    """
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    if is_property and kind == "float":
        schema["format"] = "float"
        schema["description"] = f"{schema.get('description', '')} This is a float type value."
    schema["type"] = _OPENAI.get(kind, "string") if isinstance(kind, str) else "string"
    if schema["type"] not in ("array", "object"):
        return True
    if "properties" in schema:
        held = schema["properties"]
        return isinstance(held, dict) and all(map(_convert, held.values()))
    return "items" not in schema or _convert(schema["items"], is_property=False)
