import socket
import threading
from collections.abc import Iterator

import pytest

from regrade.engines.vllm_process.channel import Channel


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    left, right = (Channel(end) for end in socket.socketpair())
    yield left, right
    left.close()
    right.close()


def test_messages_arrive_in_order(ends):
    left, right = ends
    messages = [
        {"type": "a", "text": "line\nbreak \u2028 ü 😀"},
        {"type": "b", "list": [1, None, 0.5]},
    ]

    for message in messages:
        left.send(message)

    assert [right.receive(), right.receive()] == messages


def test_a_message_larger_than_the_buffers_arrives_complete(ends):
    left, right = ends
    message = {"type": "big", "text": "x" * 20_000_000}
    sender = threading.Thread(target=left.send, args=(message,))
    sender.start()

    assert right.receive() == message
    sender.join()


def test_receive_returns_none_after_the_other_end_has_closed(ends):
    left, right = ends
    left.send({"type": "last"})
    left.close()

    assert right.receive() == {"type": "last"}
    assert right.receive() is None


def test_sending_to_a_closed_end_fails(ends):
    left, right = ends
    right.close()

    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        left.send({"type": "late"})


def test_has_message_detects_a_waiting_message(ends):
    left, right = ends

    assert not right.has_message()
    left.send({"n": 1})
    left.send({"n": 2})
    assert right.has_message()
    right.receive()
    assert right.has_message()  # the second message was read with the first
    right.receive()
    assert not right.has_message()
