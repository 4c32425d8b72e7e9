"""Scorer of calls of tools: compares them with the right ones and their alternatives, as BFCL's check of syntax trees does.

Berkeley Function-Calling Leaderboard: https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from regrade.records.tools import TOOLS, ToolCall, read_calls
from regrade.scorers.base import Reading, TargetKind, score_rows
from regrade.scorers.extraction import columns as c
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError

_KEPT = 200
"""Longest text of the calls that is stored in the scores, in characters."""
NO_CALL = "no call"
"""Extracted value of an answer that rightly calls nothing."""
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
"""Type of a value in Python for each type of JSON schema."""
_IGNORED = str.maketrans("", "", " ,./-_*^")
"""Characters that make no difference between texts."""


class ToolCallsScorer:
    """Compares the calls of functions with the right ones."""

    name: ScorerName = "tool_calls"
    version = 1
    description = (
        "The calls of functions in the column `tool_calls`, in any order. Each must have the name and one of the alternatives of each "
        "parameter, by BFCL's rules: types as in the function's schema, texts without regard to case, spaces and `,./-_*^`. If no "
        "call is right, there must be none."
    )
    unparsed = "An answer without a call, where one is right."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("target", "doc", "tool_calls")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`.

        Raises:
            SettingsError: If an answer has no calls stored, not even an empty list, or its question no functions.
        """
        extracted: list[str | None] = []
        right: list[bool] = []
        opened = c.flags(batch, "reasoning_open").to_pylist()
        names = ("sample_id", "target", "doc", "tool_calls", "error")
        columns = (batch.column(name).to_pylist() for name in names)
        read = cache(_question)
        for is_open, (sample, target, doc, text, error) in zip(
            opened, zip(*columns, strict=True), strict=True
        ):
            if error is not None:
                extracted.append(None)
                right.append(False)
                continue
            expected, functions = read(sample, target, doc)
            calls = None if text is None else read_calls(text)
            if calls is None:
                raise SettingsError(
                    f"Scorer '{self.name}' reads the column `tool_calls`, which has no list of calls for sample '{sample}' "
                    f"({str(text)[:100]}). Choose another scorer with `--scorer`."
                )
            is_missing = not calls and (bool(expected) or bool(is_open))
            extracted.append(None if is_missing else _shown(calls))
            right.append(not is_missing and are_right(calls, expected, functions))
        values = c.shortened(pa.array(extracted, pa.string()), _KEPT)
        return score_rows(batch, Reading(values, pa.array(right, pa.bool_())))


def are_right(
    calls: Sequence[ToolCall],
    expected: Sequence[Mapping[str, Mapping[str, list[Any]]]],
    functions: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Return True if there is a call for each of the expected ones, in any order, and no other.

    Args:
        calls: Calls of an answer.
        expected: For each right call its function, with the alternatives for each parameter.
        functions: Schema of the parameters by the name of the function.
    """
    if len(calls) != len(expected):
        return False
    left = [*calls]
    for call in expected:
        [(name, alternatives)] = call.items()
        found = next(
            (
                place
                for place, given in enumerate(left)
                if given.name == name and _fits(given.arguments, alternatives, functions[name])
            ),
            None,
        )
        if found is None:
            return False
        del left[found]
    return True


def _question(
    sample: str, target: str | None, doc: str | None
) -> tuple[list[dict[str, dict[str, list[Any]]]], dict[str, Mapping[str, Any]]]:
    """Return the right calls of a question, and the schemas of its functions.

    Raises:
        SettingsError: If it has none.
    """
    try:
        functions = {
            tool["function"]["name"]: tool["function"].get("parameters", {})
            for tool in json.loads(doc or "{}")[TOOLS]
        }
        expected = json.loads(target or "")
        for call in expected:
            [(name, parameters)] = call.items()
            if name not in functions or not all(isinstance(a, list) for a in parameters.values()):
                raise ValueError(name)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SettingsError(
            f"Scorer 'tool_calls' compares with calls of the question's functions, and sample '{sample}' has no such target "
            f"('{str(target)[:100]}'), or no functions in `doc`. Choose another scorer with `--scorer`."
        ) from error
    return expected, functions


def _fits(
    arguments: object, alternatives: Mapping[str, list[Any]], schema: Mapping[str, Any]
) -> bool:
    """Return True if the arguments of a call are among the alternatives."""
    properties = schema.get("properties") or {}
    if not isinstance(arguments, dict) or any(
        name not in arguments for name in schema.get("required") or ()
    ):
        return False
    return all(
        name in properties
        and name in alternatives
        and _is_right(value, alternatives[name], properties[name])
        for name, value in arguments.items()
    ) and all(name in arguments or "" in allowed for name, allowed in alternatives.items())


def _is_right(value: Any, alternatives: list[Any], schema: Mapping[str, Any]) -> bool:  # noqa: ANN401 - any value of JSON
    """Return True if a value has the type of its parameter and is one of the alternatives."""
    expected = _type(schema) or _first_type(alternatives)
    inner = _type(schema.get("items", {})) if expected is list else None
    if expected is float and type(value) is int:
        value = float(value) if abs(value) < 1 << 1000 else value
    has_type, by_alternative = _has_type(value, alternatives, expected, inner)
    if not has_type:
        return False
    if by_alternative:
        return value in alternatives
    if expected is dict:
        return any(_object_is(value, other) for other in alternatives)
    if expected is list and inner is dict:
        return any(_objects_are(value, other) for other in alternatives)
    if expected is list:
        return [*map(_plain, value)] in [[*map(_plain, other)] for other in _lists(alternatives)]
    if expected is str:
        return _plain(value) in [_plain(other) for other in alternatives if isinstance(other, str)]
    return value in alternatives


def _has_type(
    value: object, alternatives: Sequence[Any], expected: type | None, inner: type | None
) -> tuple[bool, bool]:
    """Return True if a value has the expected type, and True if it is to be compared as it is.

    The alternatives may have another type than the parameter: they then stand for the name of a variable.
    """
    of_alternatives = _first_type(alternatives)
    differs = of_alternatives is not None and of_alternatives is not expected
    if type(value) is expected:
        if inner is None or not isinstance(value, list):
            return True, differs
        fits = any(
            not isinstance(other, list)
            or all(_has_type(item, other, inner, None)[0] for item in value)
            for other in alternatives
        )
        return fits, differs
    return type(value) is of_alternatives, True


def _type(schema: object) -> type | None:
    """Return the type of the values of a schema; None if it does not state a single one."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return _TYPES.get(kind) if isinstance(kind, str) else None


def _first_type(alternatives: Sequence[Any]) -> type | None:
    return next((type(other) for other in alternatives if other != ""), None)


def _lists(alternatives: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the alternatives as lists; one that may be left out is also an empty list, as in BFCL."""
    return [other for other in alternatives if isinstance(other, list | str)]


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a text without what makes no difference; other values as they are."""
    return value.translate(_IGNORED).lower().replace("'", '"') if isinstance(value, str) else value


def _object_is(value: object, alternative: object) -> bool:
    """Return True if an object has, for each key, one of the alternatives."""
    if not isinstance(value, dict) or not isinstance(alternative, dict):
        return False
    return all(
        key in alternative and _plain(held) in [*map(_plain, _listed(alternative[key]))]
        for key, held in value.items()
    ) and all(key in value or "" in _listed(allowed) for key, allowed in alternative.items())


def _objects_are(value: Sequence[object], alternative: object) -> bool:
    """Return True if a list of objects is an alternative, in order."""
    return (
        isinstance(alternative, list)
        and len(value) == len(alternative)
        and all(map(_object_is, value, alternative))
    )


def _listed(alternatives: object) -> list[Any]:
    return alternatives if isinstance(alternatives, list) else [alternatives]


def _shown(calls: Sequence[ToolCall]) -> str:
    """Return calls as a person reads them."""
    return "; ".join(map(_call, calls)) or NO_CALL


def _call(call: ToolCall) -> str:
    given = call.arguments
    if not isinstance(given, dict):
        return f"{call.name}({given})"
    shown = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return f"{call.name}({', '.join(shown)})"


scorer = ToolCallsScorer
