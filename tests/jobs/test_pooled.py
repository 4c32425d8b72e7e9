"""Several answer sets in one stream of requests."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from regrade.answers.spool import Spool, SpoolError
from regrade.jobs import generate as module
from regrade.jobs.generate import Filling, SharedClock, fill
from regrade.jobs.plan import PlannedRequests, PooledRequests
from regrade.records import Completion, Request
from regrade.settings.errors import EngineError
from tests.sums import Answering, plan_of


def requests(n: int) -> PlannedRequests:
    plan = plan_of(n)
    return plan.requests(plan.missing(set()))


def fillings_of(sets: list[PlannedRequests], spools: list[Spool]) -> list[Filling]:
    """Fillings of the first spools."""
    return [Filling(r, spool, lambda _: None) for r, spool in zip(sets, spools, strict=False)]


@pytest.fixture
def spools(tmp_path: Path) -> Iterator[list[Spool]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Spool(tmp_path / str(n))) for n in range(3)]


def test_a_pool_asks_one_set_after_the_other_and_knows_whose_each_request_is():
    first, second, third = requests(4), plan_of(1).requests([]), requests(3)
    pool = PooledRequests((first, second, third))

    asked = list(pool)

    assert [request.key for request in asked] == list(range(7)) == [*range(len(pool))]
    assert [r.prompt for r in asked] == [r.prompt for part in pool.parts for r in part]
    assert [pool.place(key) for key in (0, 3, 4, 6)] == [(0, 0), (0, 3), (2, 0), (2, 2)]
    assert [pool.place(key) for key in (-1, 7)] == [None, None]
    assert pool == PooledRequests((first, second, third)) != PooledRequests((first, third))


def test_what_is_withdrawn_from_a_set_is_withdrawn_from_the_pool_and_seen_by_a_new_object():
    first, second = requests(2), requests(3)
    pool = PooledRequests((first, second))
    before = pool.withdrawn

    second.withdraw({("id-1", 0)})

    assert before == frozenset()
    assert pool.withdrawn == {3}
    assert pool.withdrawn is pool.withdrawn
    assert [request.key for request in pool] == [0, 1, 2, 4]


def test_each_answer_becomes_a_row_of_its_own_set_whatever_the_order(spools: list[Spool]):
    sets = [requests(2), requests(4)]
    seen: list[tuple[int, int, int]] = []
    fillings = fillings_of(sets, spools)

    fill(fillings, Answering(1), lambda n: seen.append((n, *(f.progress.done for f in fillings))))

    assert seen == [(1, 0, 4), (0, 2, 4)]  # the last set is complete before the first begins
    texts = [pq.read_table(spool.seal()[0].path)["text"].to_pylist() for spool in spools[:2]]
    assert texts == [["1", "0"], ["5", "4", "3", "2"]]  # the engine answers with its key
    for spool, n in zip(spools, (2, 4), strict=False):
        assert spool.states().done == {(f"id-{k}", 0) for k in range(n)}


def test_an_engine_that_ends_loses_no_answer_of_any_set(spools: list[Spool]):
    fillings = [Filling(requests(3), spool, lambda _: None) for spool in spools]

    with pytest.raises(EngineError, match="4 of 9 requests unanswered"):
        fill(fillings, Answering(lose=4))

    assert [len(spool.states().done) for spool in spools] == [0, 2, 3]


def test_a_set_that_cannot_be_stored_costs_no_answer_of_another(
    spools: list[Spool], monkeypatch: pytest.MonkeyPatch
):
    full = Mock(side_effect=SpoolError("here", "no space left on device"))
    monkeypatch.setattr(spools[0], "append", full)
    fillings = [Filling(requests(3), spool, lambda _: None) for spool in spools[:2]]

    with pytest.raises(SpoolError):
        fill(fillings, Answering())

    assert len(spools[1].states().done) == 3


def test_a_set_whose_last_answers_come_from_another_machine_is_complete(spools: list[Spool]):
    sets = [requests(2), requests(2)]
    sets[0].withdraw({("id-0", 0), ("id-1", 0)})
    complete: list[int] = []
    fillings = fillings_of(sets, spools)

    fill(fillings, Answering(), complete.append)

    assert complete == [0, 1]
    assert (fillings[0].progress.elsewhere, fillings[0].progress.new) == (2, 0)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


class Ticking(Answering):
    """Answers one request after the other; each answer takes some seconds."""

    def __init__(self, at: list[float], seconds: float, **answer: Any) -> None:
        self.at, self.seconds, self.answer = at, seconds, answer

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for request in requests:
            self.at[0] += self.seconds
            yield [Completion(request.key, "sent", **self.answer)]


class Stopping(Answering):
    """Takes all requests of two sets; after the first set is stopped, two answers to each set still come."""

    def __init__(self, at: list[float], first: PlannedRequests) -> None:
        self.at, self.first = at, first

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        keys = [request.key for request in requests]
        self.first.stop()
        for key in (keys[0], keys[-2], keys[1], keys[-1]):
            self.at[0] += 1.0
            yield [Completion(key, "sent", text="1", completion_tokens=9)]


def test_a_stopped_set_keeps_answers_that_still_come_and_its_seconds_are_those_of_its_last_row(
    at: list[float], spools: list[Spool]
):
    sets = [requests(5), requests(2)]
    fillings = fillings_of(sets, spools)

    fill(fillings, Stopping(at, sets[0]))

    first, second = (filling.progress for filling in fillings)
    assert (first.new, first.left_out, first.finished) == (2, 3, True)
    stored = [max(pq.read_table(s.seal()[0].path)["finished_at"].to_pylist()) for s in spools[:2]]
    assert stored == [first.seconds, second.seconds]
    assert sum(stored) == 4.0


def test_a_stopped_set_is_complete_when_the_engine_has_ended_also_by_a_failure(
    at: list[float], spools: list[Spool]
):
    class Failing(Stopping):
        def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
            yield from super().generate(requests)
            raise EngineError("The engine ended.", "", False)

    sets = [requests(5), requests(3)]
    fillings = fillings_of(sets, spools)
    complete: list[int] = []

    with pytest.raises(EngineError):
        fill(fillings, Failing(at, sets[0]), complete.append)

    assert complete == [0]


# The seconds of each set; docs/speed.md has the definition.


def test_sets_that_share_an_engine_share_its_seconds_by_their_tokens(at: list[float]):
    clock = SharedClock(2)
    for number in range(1, 9):  # one answer per second, by turns: 10 tokens here, 30 there
        at[0] = 100.0 + number
        clock.settle({number % 2: 30 if number % 2 else 10}, {0, 1})

    assert clock.seconds == pytest.approx([2.0, 6.0])


def test_the_seconds_of_all_sets_add_up_to_the_session_at_any_time_and_never_shrink(
    at: list[float],
):
    clock, before, waiting = SharedClock(3), [0.0, 0.0, 0.0], {0, 1, 2}
    for number, tokens in enumerate([{0: 5}, {0: 1, 1: 90}, {2: 1}, {1: 7, 2: 7}, {2: 1000}]):
        at[0] += 1.0 + number
        clock.settle(tokens, waiting)
        assert sum(clock.seconds) == pytest.approx(at[0] - 100.0)
        assert all(now >= then for now, then in zip(clock.seconds, before, strict=True))
        before = [*clock.seconds]
        if number == 1:
            waiting.remove(0)
    assert clock.seconds[0] == pytest.approx(1.0)
    at[0] += 5.0
    clock.settle({2: 1}, {2})
    assert clock.seconds[1] == before[1]


def test_a_set_alone_has_all_seconds_of_the_session_also_without_counted_tokens(
    at: list[float], spools: list[Spool]
):
    filling = Filling(requests(3), spools[0], lambda _: None)
    fill([filling], Ticking(at, 2.0, text="1"))

    (file,) = spools[0].seal()
    assert filling.progress.seconds == 6.0
    assert file.rows == 3


def test_of_several_sets_in_one_stream_none_has_a_speed_although_the_first_has_all_seconds(
    at: list[float], spools: list[Spool]
):
    first, second = (Filling(requests(3), spool, lambda _: None) for spool in spools[:2])
    fill([first, second], Ticking(at, 2.0, text="1", completion_tokens=3))

    assert (first.progress.seconds, second.progress.seconds) == (6.0, 6.0)
    for progress in (first.progress, second.progress):
        assert (progress.tokens_per_second, progress.speed_text) == (None, "")


def test_the_speed_of_a_replay_is_that_of_the_tokens_that_were_read(
    at: list[float], spools: list[Spool]
):
    filling = Filling(requests(4), spools[0], lambda _: None)
    fill([filling], Ticking(at, 1.0, completion_tokens=1, token_logprobs=(-0.5,) * 3))

    assert filling.progress.speed_text == ", 3 tokens/s"
