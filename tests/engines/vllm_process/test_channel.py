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


def test_what_is_sent_is_received_in_order(ends):
    left, right = ends
    messages = [
        {"type": "a", "text": "line\nbreak \u2028 ü 😀"},
        {"type": "b", "list": [1, None, 0.5]},
    ]

    for message in messages:
        left.send(message)

    assert [right.receive(), right.receive()] == messages


def test_a_message_larger_than_any_buffer_arrives_whole(ends):
    left, right = ends
    message = {"type": "big", "text": "x" * 20_000_000}
    sender = threading.Thread(target=left.send, args=(message,))
    sender.start()

    assert right.receive() == message
    sender.join()


def test_nothing_is_received_from_an_end_that_is_gone(ends):
    left, right = ends
    left.send({"type": "last"})
    left.close()

    assert right.receive() == {"type": "last"}
    assert right.receive() is None


def test_sending_to_an_end_that_is_gone_fails(ends):
    left, right = ends
    right.close()

    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        left.send({"type": "late"})


def test_a_waiting_message_is_noticed(ends):
    left, right = ends

    assert not right.has_message()
    left.send({"n": 1})
    left.send({"n": 2})
    assert right.has_message()
    right.receive()
    assert right.has_message()  # the second one was read along with the first
    right.receive()
    assert not right.has_message()
