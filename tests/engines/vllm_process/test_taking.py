"""Requests that the owner takes to send: new ones, and those that the worker has tokenised."""

import base64
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.answers.spool import Spool
from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.engine import _take_tokenised, image_messages, to_wire
from regrade.jobs.generate import Filling, fill
from regrade.jobs.plan import PooledRequests
from regrade.records import Request
from regrade.records.images import read_image
from regrade.settings import SamplingParams
from tests.conversations import plan_of_turns, write_turns
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import opened
from tests.records.test_images import file_of
from tests.sums import MODEL


class Withdrawing(list[Request]):
    """Requests of which some are withdrawn while the engine answers others."""

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


class Worker:
    """The worker's side of the channel: answers with the number of messages and the last of them, the newest request first."""

    def __init__(self, ahead: list[Any]) -> None:
        self.ahead, self.kinds, self.keys = ahead, list[str](), list[int]()
        self.waiting: deque[tuple[int, Any]] = deque()
        self.answers: deque[Message] = deque()

    def send(self, message: Message) -> None:
        self.kinds.append(message["type"])
        if message["type"] == "measure":
            self.answers.append(
                {"type": "measured", "round": message["round"], "speed": None, "occupancy": None}
            )
            return
        asked = message.get("requests")
        if message["type"] == "tokenised":
            first = message["first"]
            asked = self.ahead[first : first + message["count"]]
        self.waiting.extend((message["round"], request) for request in asked or ())

    def has_message(self, seconds: float = 0.0) -> bool:
        return bool(self.answers or self.waiting)

    def receive(self) -> Message:
        if self.answers:
            return self.answers.popleft()
        round_, request = self.waiting.pop()
        key, prompt = request["key"], request["prompt"]
        self.keys.append(key)
        text = f"{len(prompt)}: {prompt[-1]['content']}"
        answer = {"key": key, "prompt": str(prompt), "text": text}
        return {"type": "completions", "round": round_, "completions": [answer]}


@pytest.mark.parametrize("planned", [True, False])
def test_turns_that_become_ready_join_the_planned_requests_in_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: bool
):
    talks = [[f"{name}{turn}" for turn in (1, 2, 3)] for name in "abcd"]
    plan = plan_of_turns(write_turns(tmp_path / "talks.jsonl", *talks))
    pool = PooledRequests((plan.requests(plan.missing(set())),))
    engine = opened(MODEL, tmp_path / "log", FAST, *([pool] if planned else []))
    first = list(pool)
    worker = Worker([{"key": r.key, "prompt": r.prompt} for r in first])
    monkeypatch.setattr(engine, "_process", SimpleNamespace(channel=worker))
    monkeypatch.setattr(engine, "_info", object())
    monkeypatch.setattr(engine, "_window", 3)
    monkeypatch.setattr(engine, "_sent", [[request.key for request in first]])
    monkeypatch.setattr(engine, "_measured", lambda **_: None)

    with Spool(tmp_path / "spool") as spool:
        fill([Filling(pool.parts[0], spool, lambda _: None)], engine)
        rows = [row for batch in spool.batches(["sample_id"]) for row in batch.to_pylist()]

    assert {row["question"]: row["text"] for row in rows} == {
        f"{name}{turn}": f"{2 * turn - 1}: {name}{turn}" for name in "abcd" for turn in (1, 2, 3)
    }
    assert sorted(worker.keys) == list(range(12))
    assert ("tokenised" in worker.kinds) is planned
    # A conversation goes on before others begin: vLLM has just computed its beginning.
    assert worker.keys[:4] == [6, 7, 8, 9]
