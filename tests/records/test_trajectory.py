import json

import pytest

from regrade.records.messages import MOST_PARTS, Part, PartedMessage
from regrade.records.trajectory import (
    LARGEST,
    LONGEST_TEXT,
    TrajectoryError,
    call_of,
    plain_trajectory,
    read_trajectory,
    trajectory_text,
)

MESSAGES = (
    PartedMessage(
        "assistant",
        (
            Part("reasoning", "Where?"),
            Part("text", "Looking."),
            call_of("c1", "bash", '{"cmd": "ls"}'),
        ),
    ),
    PartedMessage("tool", (Part("tool_result", "no such file", "c1", "bash", is_error=True),)),
    PartedMessage("user", (Part("image", f"<image:{'0' * 64}>"),)),
    PartedMessage("assistant", (Part("text", "Done."),)),
)


def test_a_trajectory_is_read_as_it_was_stored():
    text = trajectory_text(MESSAGES)
    assert read_trajectory(text) == MESSAGES
    assert json.loads(text)[0]["parts"][2] == {
        "type": "tool_call",
        "id": "c1",
        "name": "bash",
        "arguments": {"cmd": "ls"},
    }


def test_of_a_long_text_the_middle_is_left_out_and_counted():
    long = "a" * LONGEST_TEXT + "b" * 7 + "c"
    stored = read_trajectory(trajectory_text([PartedMessage("tool", (Part("text", long),))]))
    assert stored is not None
    [part] = stored[0].parts
    assert part.cut == 8
    assert part.text.startswith("aaa")
    assert part.text.endswith("c")
    assert "[... 8 characters left out ...]" in part.text


def test_a_trajectory_has_a_largest_size():
    messages = [PartedMessage("tool", (Part("tool_result", "\u20ac" * LONGEST_TEXT),))] * 60
    text = trajectory_text(messages)
    assert LARGEST / 4 < len(text.encode()) <= LARGEST
    assert len(read_trajectory(text) or ()) == 60
    with pytest.raises(TrajectoryError, match="20,002 messages and parts; at most 20,000"):
        trajectory_text([PartedMessage("user", ())] * (MOST_PARTS + 2))
    with pytest.raises(TrajectoryError, match="bytes with all texts cut"):
        trajectory_text([PartedMessage("user", (Part("text", "x" * 900),))] * (MOST_PARTS // 2))


def test_long_arguments_become_a_text_without_its_middle():
    call = call_of("c", "write", json.dumps({"content": "x" * 2 * LONGEST_TEXT}))
    stored = read_trajectory(trajectory_text([PartedMessage("assistant", (call,))]))
    assert stored is not None
    [part] = stored[0].parts
    assert isinstance(part.arguments, str)
    assert part.cut > LONGEST_TEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"role": 1, "parts": []}]',
        '[{"role": "user", "parts": {}}]',
        '[{"role": "user", "parts": [{"type": "video"}]}]',
        '[{"role": "user", "parts": [{"type": "text", "text": 1}]}]',
        '[{"role": "user", "parts": [{"type": "tool_call", "arguments": {}}]}]',
        "[" * 100_000,
    ],
)
def test_a_text_of_strangers_that_is_no_trajectory_is_none(text: str):
    assert read_trajectory(text) is None


def test_half_characters_and_numbers_that_are_no_json_can_be_stored():
    message = PartedMessage("assistant", (Part("text", "\ud800"), call_of(None, "f", '{"x": NaN}')))
    stored = read_trajectory(trajectory_text([message]))
    assert stored is not None
    assert stored[0].parts[0].text == "\ufffd"
    assert stored[0].parts[1].arguments == '{"x": NaN}'


def test_as_plain_text_calls_and_results_have_names_and_thoughts_are_left_out():
    assert plain_trajectory(MESSAGES, 1000) == (
        'assistant: Looking.\n\nassistant calls bash: {"cmd": "ls"}\n\nerror of bash: no such file\n\n'
        f"user: <image:{'0' * 64}>\n\nassistant: Done."
    )


def test_plain_text_is_bounded_and_keeps_the_end():
    long = [
        *MESSAGES[:1],
        PartedMessage("tool", (Part("tool_result", "x" * 50_000),)),
        MESSAGES[-1],
    ]
    text = plain_trajectory(long, 4000)
    assert len(text) <= 4000
    assert text.endswith("assistant: Done.")
    assert text.startswith("assistant: Looking.")
    many = plain_trajectory(MESSAGES * 1000, 4000)
    assert 4000 <= len(many) < 4100
    assert many.endswith("Done.")
