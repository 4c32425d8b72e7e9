import json

import pytest

from regrade.records.tools import MOST_CALLS, ToolCall, calls_text, read_calls


def test_arguments_are_stored_as_an_object_and_read_again():
    text = calls_text([("play", '{"artist": "Björk", "n": 123456789012345678901234567890}')])

    assert "Björk" in text
    arguments = {"artist": "Björk", "n": 123456789012345678901234567890}
    assert read_calls(text) == [ToolCall("play", arguments)]


@pytest.mark.parametrize(
    "given", ["", "{", "[1]", '{"n": NaN}', "7", "[" * 100_000, '{"a":' * 100_000]
)
def test_arguments_that_are_no_json_object_stay_as_the_model_wrote_them(given: str):
    assert read_calls(calls_text([("play", given)])) == [ToolCall("play", given)]


def test_half_of_a_character_can_be_stored():
    text = calls_text([("play", '{"artist": "\\ud83d"}')])

    assert json.loads(text.encode()) == [{"name": "play", "arguments": {"artist": "\ud83d"}}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"name": "f"}]',
        '[{"name": 1, "arguments": {}}]',
        "[" * 100_000,
        json.dumps([{"name": "f", "arguments": {}}] * (MOST_CALLS + 1)),
    ],
)
def test_what_is_no_list_of_calls_is_not_read(text: str):
    assert read_calls(text) is None
