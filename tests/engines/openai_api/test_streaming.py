import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrade.engines.openai_api.streaming import END, StreamedResponse, events
from regrade.records.tools import MOST_CALLS

PIECES = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "One and one "}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "is two.\n"}}]},
    {"choices": [{"index": 0, "delta": {"content": "Zwei: 2 ✓"}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}},
]


def sent(pieces: list[dict], newline: str = "\n") -> bytes:
    lines = [f"data: {json.dumps(piece)}" for piece in pieces]
    return (newline * 2).join([": ping", *lines, "data: [DONE]", ""]).encode()


def received(content: bytes, ends: list[int]) -> list[bytes]:
    async def chunks() -> AsyncIterator[bytes]:
        places = [0, *sorted(end % (len(content) + 1) for end in ends), len(content)]
        for start, end in pairwise(places):
            yield content[start:end]

    async def collected() -> list[bytes]:
        return [data async for data in events(chunks())]

    return asyncio.run(collected())


@given(st.lists(st.integers(0, 10_000), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_events_are_the_same_wherever_the_network_splits_them(ends, newline):
    *pieces, last = received(sent(PIECES, newline), ends)

    assert [json.loads(piece) for piece in pieces] == PIECES
    assert last == END


def test_the_pieces_of_a_message_are_the_message_with_its_reasoning():
    answer = StreamedResponse()
    for piece in PIECES:
        answer.add(piece)

    document = answer.document(chat=True, started=0.0)

    (choice,) = document["choices"]
    assert len(choice.pop("chunks")) == 3
    assert choice == {
        "index": 0,
        "finish_reason": "stop",
        "message": {"content": "Zwei: 2 ✓", "reasoning_content": "One and one is two.\n"},
    }
    assert document["usage"] == {"prompt_tokens": 7, "completion_tokens": 9}


def test_answers_to_several_prompts_are_kept_apart():
    answer = StreamedResponse()
    for index, text in [(1, "b"), (0, "a"), (1, "B"), (0, "A")]:
        answer.add({"choices": [{"index": index, "text": text}]})
    assert not answer.is_whole
    for index in (0, 1):
        answer.add({"choices": [{"index": index, "text": "", "finish_reason": "length"}]})

    choices = answer.document(chat=False, started=0.0)["choices"]
    assert {(c["index"], c["text"], c["finish_reason"]) for c in choices} == {
        (0, "aA", "length"),
        (1, "bB", "length"),
    }
    assert answer.is_whole


@pytest.mark.parametrize("pieces", [[], PIECES[:4]])
def test_an_answer_that_broke_off_is_not_whole(pieces):
    answer = StreamedResponse()
    for piece in pieces:
        answer.add(piece)

    assert not answer.is_whole


def test_the_pieces_of_calls_are_whole_calls_in_their_order():
    response = StreamedResponse()
    said = [
        {"index": 1, "function": {"name": "stop", "arguments": ""}},
        {"index": 0, "function": {"name": "play", "arguments": '{"art'}},
        {"index": 0, "function": {"arguments": 'ist": "Abba"}'}},
    ]
    for piece in said:
        response.add({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
    response.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})

    [choice] = response.document(chat=True, started=0.0)["choices"]
    assert [call["function"] for call in choice["message"]["tool_calls"]] == [
        {"name": "play", "arguments": '{"artist": "Abba"}'},
        {"name": "stop", "arguments": ""},
    ]
    assert len(choice["chunks"]) == len(said)


@pytest.mark.parametrize("calls", ["play", [7], [{"function": 7}], [{"index": "x"}]])
def test_what_is_no_piece_of_a_call_is_refused(calls):
    with pytest.raises(ValueError, match="instead of a piece of a call"):
        StreamedResponse().add({"choices": [{"delta": {"tool_calls": calls}}]})


def test_a_server_cannot_send_calls_without_end():
    response = StreamedResponse()
    many = [{"index": n, "function": {"name": "f"}} for n in range(MOST_CALLS + 1)]
    with pytest.raises(ValueError, match="more than 1,000 calls"):
        response.add({"choices": [{"delta": {"tool_calls": many}}]})
