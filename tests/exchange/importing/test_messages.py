import base64
import hashlib
import json
from typing import Any

import pytest

from regrade.exchange.importing.files import ImportFileError
from regrade.exchange.importing.messages import conversation, read_messages, split
from regrade.exchange.importing.record import Record
from regrade.records.messages import Part, prompt_messages
from tests.pictures import SVG, image

RECORD = Record({}, lambda problem: ImportFileError("a.json", problem, 3))
CALL = Part("tool_call", call="c1", name="add", arguments={"x": 1})


def parts(*messages: dict[str, Any]) -> list[tuple[Part, ...]]:
    return [message.parts for message in read_messages(list(messages), RECORD)]


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "c1", "function": "add", "arguments": {"x": 1}, "type": "function"},
        {"id": "c1", "name": "add", "arguments": '{"x": 1}'},
        json.dumps({"id": "c1", "name": "add", "arguments": '{"x": 1}'}),
    ],
    ids=["OpenAI", "Inspect", "verifiers", "verifiers as text"],
)
def test_a_call_is_the_same_in_each_tools_form(call: object):
    message = {"role": "assistant", "content": "Adding.", "tool_calls": [call]}
    result = {"role": "tool", "content": "2", "tool_call_id": "c1"}
    assert parts(message, result) == [
        (Part("text", "Adding."), CALL),
        (Part("tool_result", "2", "c1", "add"),),
    ]


def test_anthropics_parts_are_calls_results_and_thoughts():
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"x": 1}},
    ]
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "2"}],
    }
    assert parts(
        {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}
    ) == [(Part("reasoning", "hm"), CALL), (Part("tool_result", "2", "c1", "add"),)]


def test_an_error_of_a_tool_is_its_result():
    error = {"type": "parsing", "message": "no integer"}
    message = {"role": "tool", "content": "", "tool_call_id": "c", "function": "f", "error": error}
    assert parts(message) == [(Part("tool_result", "no integer", "c", "f", is_error=True),)]


def test_an_image_is_named_by_its_hash_or_by_its_address():
    data = base64.b64encode(b"pixels").decode()
    mark = f"<image:{hashlib.sha256(b'pixels').hexdigest()}>"
    inline = f"data:image/png;base64,{data}"
    content = [
        {"type": "image_url", "image_url": {"url": inline}},
        {"type": "image", "image": inline},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "image", "source": {"path": "images/1.png"}},
        {"type": "audio", "source": {"path": "sounds/1.wav"}},
    ]
    [found] = read_messages([{"role": "user", "content": content}], RECORD)
    assert found.text.split("\n") == [mark] * 3 + ["[image: images/1.png]", "[audio]"]


def test_an_image_whose_bytes_are_in_the_file_may_be_stored_if_it_is_no_program():
    red = image(1)
    svg = base64.b64encode(SVG).decode()
    content = [
        {"type": "text", "text": "Which"},
        {"type": "image_url", "image_url": {"url": red.data_uri}},
        {"type": "image_url", "image_url": {"url": red.data_uri}},
        {"type": "image_url", "image_url": {"url": f"data:image/svg+xml;base64,{svg}"}},
        {"type": "image_url", "image_url": {"url": "https://host/1.png"}},
        {"type": "text", "text": "colour?"},
    ]
    messages = read_messages([{"role": "user", "content": content}], RECORD)

    found = conversation(messages, ())

    assert [image.content for image in found.images] == [red.content]
    named = f"<image:{hashlib.sha256(SVG).hexdigest()}>"
    lines = ["Which", red.mark, red.mark, named, "[image: https://host/1.png]", "colour?"]
    assert found.question == "\n".join(lines)
    [stored] = prompt_messages(found.prompt or "", "messages", "chat", [red.sha256])
    assert stored.text == found.question
    assert [part.sha256 for part in stored.parts if part.kind == "image"] == [red.sha256] * 2


def test_texts_of_a_message_stand_on_lines_of_their_own():
    texts = [{"type": "text", "text": text} for text in ("a", "", "b")]
    call = {"id": "c", "name": "f", "arguments": {}}
    messages = read_messages(
        [
            {"role": "user", "content": texts},
            {"role": "assistant", "content": texts, "tool_calls": [call]},
        ],
        RECORD,
    )

    assert [message.text for message in messages] == ["a\nb", "a\nb"]
    found = conversation(messages, ())
    assert [m.text for m in prompt_messages(found.prompt or "", "messages", "chat")] == ["a\nb"] * 2


def test_the_prompt_ends_before_the_first_message_that_the_model_wrote():
    given = [("system", "s"), ("user", "q"), ("assistant", "a"), ("user", "q2")]
    made = [("assistant", "first"), ("user", "go on"), ("assistant", "last")]
    messages = read_messages([{"role": r, "content": c} for r, c in given + made], RECORD)
    found = conversation(*split(messages, answers=1))
    assert [turn["content"] for turn in json.loads(found.prompt or "")] == [c for _, c in given]
    assert found.question is None
    assert (found.text, len(found.trajectory)) == ("last", 3)
    assert conversation(*split(messages[:2])).question == "q"
    assert conversation(*split(messages[:2])).text is None


def test_calls_that_the_model_was_given_are_parts_of_the_prompt_beside_its_texts():
    given = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "Adding.",
            "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "0"},
    ]
    messages = read_messages(given, RECORD)

    found = conversation(messages, ())

    stored = json.loads(found.prompt or "")
    assert [(turn["content"], "parts" in turn) for turn in stored] == [
        ("q", False),
        ("Adding.", True),
        ("0", True),
    ]
    assert prompt_messages(found.prompt or "", "messages", "chat") == list(messages)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("x", "a message should be an object with 'role' and 'content', found 'x'"),
        ({"content": "x"}, "should be an object with 'role'"),
        ({"role": "user", "content": 3}, "content of a message should be a text"),
        ({"role": "user", "content": [3]}, "a part of a message should have a 'type', found 3"),
        ({"role": "assistant", "tool_calls": {}}, "'tool_calls' should be a list"),
        ({"role": "assistant", "tool_calls": ["{"]}, "a call that is no JSON"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "should name its function"),
    ],
)
def test_what_is_no_message_is_refused_with_its_row(message: object, says: str):
    with pytest.raises(ImportFileError, match=says) as error:
        read_messages([message], RECORD)
    assert error.value.row == 3
