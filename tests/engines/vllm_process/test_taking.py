"""Requests that the owner takes to send: new ones, and those that the worker has tokenised."""

import base64

from regrade.engines.vllm_process.engine import _take_tokenised, image_messages, to_wire
from regrade.records import Request
from regrade.records.images import read_image
from regrade.settings import SamplingParams
from tests.records.test_images import file_of


class Withdrawing(list[Request]):
    withdrawn: frozenset[int] = frozenset()


def test_tokenised_requests_are_taken_in_order():
    take = _take_tokenised(3, [10, 11, 12, 13, 14], [])
    found = [take(2), take(2), take(2), take(2)]
    assert [taken.count for taken in found] == [2, 2, 1, 0]
    assert [taken.message["first"] for taken in found[:3]] == [0, 2, 4]
    assert found[0].message == {"type": "tokenised", "stream": 3, "first": 0, "count": 2}


def test_withdrawn_requests_are_passed_over_without_a_gap():
    requests = Withdrawing()
    take = _take_tokenised(0, [10, 11, 12, 13, 14, 15], requests)
    assert take(1).count == 1
    requests.withdrawn = frozenset({11, 13})
    taken = take(2)
    # The worker reads 11 to 14 from its file, and leaves out the first and the third.
    assert taken.count == 2
    assert (taken.message["first"], taken.message["count"]) == (1, 4)
    assert taken.message["skipped"] == [0, 2]
    requests.withdrawn = frozenset({11, 13, 15})
    assert take(2).count == 0


def test_an_image_is_sent_once_before_the_first_request_that_shows_it() -> None:
    red, blue = (read_image(file_of("PNG", color)) for color in ("red", "blue"))
    requests = [
        Request(key, "Which?", SamplingParams(), images=images)
        for key, images in enumerate([(red,), (red, blue), (), (blue,)])
    ]
    sent: set[str] = set()

    first = [*image_messages(requests[:1], sent)]
    later = [*image_messages(requests, sent)]

    assert [[*message["images"]] for message in (*first, *later)] == [[red.sha256], [blue.sha256]]
    assert base64.b64decode(first[0]["images"][red.sha256]) == red.content
    assert to_wire(requests[1])["images"] == [red.sha256, blue.sha256]
