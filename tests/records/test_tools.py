import json

import pytest

from regrade.records.tools import MOST_CALLS, MOST_NESTED, ToolCall, calls_text, read_calls


def test_arguments_are_stored_as_an_object_and_read_again():
    text = calls_text([("play", '{"artist": "Björk", "n": 123456789012345678901234567890}')])

    assert "Björk" in text
    arguments = {"artist": "Björk", "n": 123456789012345678901234567890}
    assert read_calls(text) == [ToolCall("play", arguments)]


def nested(lists: int) -> str:
    return '{"a":' + "[" * lists + "]" * lists + "}"


@pytest.mark.parametrize(
    "given",
    [
        *("", "{", "[1]", '{"n": NaN}', "7", "[" * 100_000, '{"a":' * 100_000),
        *(nested(MOST_NESTED), nested(980)),
    ],
)
def test_arguments_that_are_no_json_object_stay_as_the_model_wrote_them(given: str):
    assert read_calls(calls_text([("play", given)])) == [ToolCall("play", given)]


def test_half_of_a_character_is_replaced_where_it_is_stored_and_where_it_is_read():
    written = '{"artist": "\\ud83d", "smile": "\\ud83d\\ude00"}'
    whole = [ToolCall("play", {"artist": "\ufffd", "smile": "\U0001f600"})]

    assert read_calls(calls_text([("play", written)]).encode().decode()) == whole
    assert read_calls(f'[{{"name": "play", "arguments": {written}}}]') == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"name": "f"}]',
        '[{"name": 1, "arguments": {}}]',
        json.dumps([{"name": "f", "arguments": {}}] * (MOST_CALLS + 1)),
    ],
)
def test_what_is_no_list_of_calls_is_not_read(text: str):
    assert read_calls(text) is None


def test_arguments_within_each_other_are_an_object_up_to_a_number_that_is_read_again():
    [stored] = read_calls(calls_text([("play", nested(MOST_NESTED - 2))])) or ()

    assert isinstance(stored.arguments, dict)


@pytest.mark.parametrize("lists", [MOST_NESTED, 900, 989, 100_000])
def test_calls_that_are_nested_too_deeply_to_be_read_are_calls_that_fit_no_function(lists: int):
    [call] = read_calls('[{"name": "f", "arguments": ' + nested(lists) + "}]") or ()

    assert isinstance(call.arguments, str)
