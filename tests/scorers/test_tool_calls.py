"""Calls against the right ones, by BFCL's rules."""

import json
from typing import Any

import pytest

from regrade.records.tools import calls_text
from regrade.settings.errors import SettingsError
from tests.scorers.batches import batch_score, generations

KINDS = {
    "s": {"type": "string"},
    "i": {"type": "integer"},
    "f": {"type": "number"},
    "b": {"type": "boolean"},
    "l": {"type": "array", "items": {"type": "string"}},
    "o": {"type": "object"},
    "lo": {"type": "array", "items": {"type": "object"}},
}
SCHEMA = {"type": "object", "properties": KINDS}
DOC = json.dumps(
    {"tools": [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in "gh"]}
)


def scored(calls: Any, right: Any, **changes: Any) -> tuple[float | None, str | None, str]:
    text = calls if calls is None or isinstance(calls, str) else json.dumps(calls)
    batch = generations([""], json.dumps(right), **({"doc": DOC, "tool_calls": text} | changes))
    [row] = batch_score("tool_calls")(batch).to_pylist()
    return row["value"], row["extracted"], row["outcome"]


def call(name: str = "g", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("arguments", "alternatives", "is_right"),
    [
        ({"s": "April 1, 2024"}, {"s": ["april 1 2024"]}, True),
        ({"s": "it's"}, {"s": ['IT"S']}, True),
        ({"s": "b"}, {"s": ["a"]}, False),
        ({"i": 5}, {"i": [4, 5]}, True),
        ({"i": 5.0}, {"i": [5]}, False),
        ({"i": "5"}, {"i": [5]}, False),
        ({"i": True}, {"i": [1]}, False),
        ({"f": 5}, {"f": [5.0]}, True),
        ({"b": True}, {"b": [True]}, True),
        ({"i": "n"}, {"i": ["n"]}, True),  # the name of a variable
        ({}, {"s": ["a", ""]}, True),
        ({}, {"s": ["a"]}, False),
        ({"s": "a", "i": 1}, {"s": ["a"]}, False),
        ({"x": "a"}, {"x": ["a"]}, False),
        ({"l": ["A", "b c"]}, {"l": [["a", "bc"]]}, True),
        ({"l": ["b", "a"]}, {"l": [["a", "b"]]}, False),
        ({"l": "a"}, {"l": [["a"]]}, False),
        ({"o": {"k": "A"}}, {"o": [{"k": ["a"], "m": [1, ""]}]}, True),
        ({"o": {"k": "b"}}, {"o": [{"k": ["a"]}]}, False),
        ({"o": {}}, {"o": [{"k": ["a"]}]}, False),
        ({"lo": [{"k": 1}]}, {"lo": [[{"k": [1]}]]}, True),
        ({"lo": [{"k": 1}, {"k": 1}]}, {"lo": [[{"k": [1]}]]}, False),
        ({"s": None}, {"s": ["a"]}, False),
        ({"f": 10**400}, {"f": [1.0]}, False),
    ],
)
def test_a_value_must_be_an_alternative_of_its_type(
    arguments: dict[str, Any], alternatives: dict[str, Any], is_right: bool
) -> None:
    assert scored([call(**arguments)], [{"g": alternatives}])[0] == is_right


def test_calls_may_come_in_any_order_and_none_may_be_left() -> None:
    right = [{"g": {"i": [1]}}, {"g": {"i": [2]}}, {"h": {}}]
    calls = [call("h"), call(i=2), call(i=1)]

    assert scored(calls, right) == (1.0, "h(); g(i=2); g(i=1)", "scored")
    assert scored(calls[:2], right)[0] == 0.0
    assert scored([*calls, call("h")], right)[0] == 0.0
    assert scored([call(i=2), call(i=2), call("h")], right)[0] == 0.0


def test_arguments_that_are_no_object_are_a_wrong_call() -> None:
    broken = [{"name": "g", "arguments": '{"i": 1'}]
    assert scored(broken, [{"g": {"i": [1]}}]) == (0.0, 'g({"i": 1)', "scored")
    assert scored(broken, [{"g": {}}])[0] == 0.0


DEEP = [f'{{"l": {"[" * depth}{"]" * depth}}}' for depth in (989, 9_999)]


@pytest.mark.parametrize("arguments", [r'{"s": "\ud83d"}', *DEEP])
def test_calls_that_end_where_text_or_python_does_are_wrong_and_end_no_scoring(
    arguments: str,
) -> None:
    for stored in (calls_text([("g", arguments)]), f'[{{"name": "g", "arguments": {arguments}}}]'):
        assert scored(stored, [{"g": {"s": ["a"], "l": [["a"]]}}])[::2] == (0.0, "scored")


def test_where_no_call_is_right_only_none_is() -> None:
    assert scored([], []) == (1.0, "no call", "scored")
    assert scored([call()], []) == (0.0, "g()", "scored")
    assert scored([], [], reasoning_open=True) == (0.0, None, "unparsed")
    assert scored([], [{"g": {}}]) == (0.0, None, "unparsed")


@pytest.mark.parametrize("calls", [None, "no", '[{"name": "g"}]'])
def test_calls_that_are_not_stored_are_not_read_from_the_text(calls: str | None) -> None:
    with pytest.raises(SettingsError, match="`tool_calls`, which has no list of calls"):
        scored(calls, [])


@pytest.mark.parametrize("changes", [{"doc": None}, {"target": "7"}, {"target": '[{"x": {}}]'}])
def test_a_question_without_functions_or_right_calls_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="compares with calls of the question's functions"):
        scored([], [], **changes)
