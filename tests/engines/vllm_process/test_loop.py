"""An error of one request fails that request; the end of the engine ends the run; nothing waits forever."""

import queue
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.engines.vllm_process.conversion import WireCompletion
from regrade.engines.vllm_process.data_parallel import DataParallelEngine
from regrade.engines.vllm_process.labels import Passes
from regrade.engines.vllm_process.loop import Loop, Queued, QueuedRequest
from regrade.engines.vllm_process.meter import Meter
from regrade.engines.vllm_process.prompts import Prepared
from tests.processes.trees import wait_until

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # while vLLM imports torch
]


@pytest.fixture(scope="module", autouse=True)
def vllm_is_imported() -> None:
    """Import vLLM before the tests, which have a minute each: on a busy machine the import alone takes as long."""
    import vllm.v1.engine.async_llm  # noqa: F401


def errors() -> dict[str, Exception]:
    from vllm.exceptions import VLLMClientError
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    unexpected = EngineGenerateError()
    unexpected.__cause__ = KeyError("no such block")
    return {
        "unexpected": unexpected,
        "client": VLLMClientError("too many labels"),
        "queue": RuntimeError("queue is full"),
        "dead": EngineDeadError(),
    }


def answer(request_id: str) -> Any:
    output = SimpleNamespace(token_ids=[5], finish_reason="stop", text="five")
    return SimpleNamespace(
        request_id=request_id, finished=True, outputs=[output], metrics=None, num_cached_tokens=0
    )


class Copies:
    """Stand-in for `AsyncLLM`: fails the requests whose first token is a key of `errors`."""

    def __init__(self, failing: dict[int, Exception]) -> None:
        self.failing = failing
        self._logger_ref: list[object] = [None]

    async def generate(self, prompt, params, request_id, lora_request=None):
        token = prompt["prompt_token_ids"][0]
        if token in self.failing:
            raise self.failing[token]
        if token:
            yield answer(request_id)


class Single:
    """Stand-in for `LLMEngine`, with errors as in `Copies`."""

    def __init__(self, failing: dict[int, Exception]) -> None:
        self.failing = failing
        self.running: list[str] = []

    def add_request(self, request_id, prompt, params):
        token = prompt["prompt_token_ids"][0]
        if token in self.failing:
            raise self.failing[token]
        self.running.append(request_id)

    def abort_request(self, request_ids):
        self.running = [name for name in self.running if name not in request_ids]

    def step(self):
        finished, self.running = self.running, []
        return [answer(name) for name in finished]


@pytest.fixture(params=["single", "copies"])
def engine_with(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Function that makes the engine of one copy or of several from errors by token."""

    def make(failing: dict[int, Exception]) -> Any:
        if request.param == "single":
            return Single(failing)
        from vllm.v1.engine.async_llm import AsyncLLM

        copies = Copies(failing)
        monkeypatch.setattr(AsyncLLM, "from_vllm_config", lambda config, **options: copies)
        return DataParallelEngine(SimpleNamespace(), Meter())

    return make


class Caching(Single):
    """Stand-in for `LLMEngine` with a prefix cache: answers choices, with the first tokens from the cache."""

    def __init__(self, cached: int, *, runner: str) -> None:
        super().__init__({})
        self.cached = cached
        self.runner = runner
        self.asked: list[tuple[list[int], bool]] = []

    def add_request(self, request_id, prompt, params):
        self.running.append((request_id, prompt["prompt_token_ids"], params))
        self.asked.append((prompt["prompt_token_ids"], not params.skip_reading_prefix_cache))

    def step(self):
        finished, self.running = self.running, []
        return [self.score(*request) for request in finished]

    def score(self, request_id, ids, params):
        cached = 0 if params.skip_reading_prefix_cache else min(self.cached, len(ids) - 1)
        logprobs = [{token: SimpleNamespace(logprob=-float(token))} for token in ids]
        if self.runner == "gpu":
            scored = [None, *logprobs[cached + 1 :]]
        else:
            scored = [None, *({} for _ in range(cached)), *logprobs[cached + 1 :]]
        output = answer(request_id)
        output.num_cached_tokens, output.prompt_logprobs = cached, scored
        return output


@pytest.mark.parametrize("runner", ["gpu", "cpu"])
@pytest.mark.parametrize(("cached", "again"), [(0, 0), (4, 0), (5, 2), (6, 2)])
def test_labels_are_scored_without_what_the_cache_has(runner: str, cached: int, again: int):
    """A GPU's runner leaves out the cached positions, the other one leaves them empty."""
    engine = Caching(cached, runner=runner)
    prompt = [9, 9, 9, 9, 9]
    choices = Passes(([*prompt, 3, 4], [*prompt, 5, 6]), (5, 5), (0, 1))

    completions, ended = run(engine, [1], choices)

    assert ended is None
    assert completions[1]["label_logprobs"] == [-7.0, -11.0]
    assert completions[1]["label_method"] == "per_choice"
    assert [reads for _, reads in engine.asked] == [True] * 2 + [False] * again


class Ranking(Caching):
    """An engine whose likeliest token is 3 at each position, with a log-probability of -3."""

    def score(self, request_id, ids, params):
        output = super().score(request_id, ids, params)
        assert params.prompt_logprobs == 1
        for at in output.prompt_logprobs:
            if at:
                at[3] = SimpleNamespace(logprob=-3.0)
        return output


def test_a_continuation_is_greedy_if_all_its_tokens_are_the_likeliest():
    continuations = Passes(([9, 9, 3, 3], [9, 3, 4], [9, 3]), (2, 1, 1), (0, 1, 2))

    completions, ended = run(Ranking(0, runner="cpu"), [1], continuations, greedy=True)

    assert ended is None
    assert completions[1]["label_logprobs"] == [-6.0, -7.0, -3.0]
    assert completions[1]["label_is_greedy"] == [True, False, True]


def test_the_windows_of_a_text_are_added():
    windows = Passes(([9, 3, 4], [3, 4, 5]), (1, 2), (0, 0))

    completions, _ = run(Ranking(0, runner="cpu"), [1], windows, greedy=True)

    assert completions[1]["label_logprobs"] == [-12.0]


def loop_of(engine: Any, *entries: Queued, most: int = 8, **options: Any) -> Loop:
    """A loop with entries in its queue."""
    queued: queue.SimpleQueue[Queued] = queue.SimpleQueue()
    for entry in entries:
        queued.put(entry)
    return Loop(
        engine, queued, queue.SimpleQueue(), max_running=most, **{"meter": Meter(), **options}
    )


def request(key: int, round_: int = 1, **fields: Any) -> QueuedRequest:
    sampling = {"max_tokens": 4, "temperature": 0.0, "seed": 0}
    return QueuedRequest(round_, Prepared(key, f"prompt {key}", sampling, [key], **fields))


def told(loop: Loop, count: int | None = None) -> list[WireCompletion]:
    """The completions that are there, or so many of a loop that runs."""
    found: list[WireCompletion] = []
    while len(found) < count if count else not loop._finished.empty():
        found.append(loop._finished.get(timeout=60)[1])
    return found


def run(
    engine: Any, tokens: list[int], ranking: Any = None, *, greedy: bool = False
) -> tuple[dict[int, WireCompletion], Exception | None]:
    """Completions by token, and the error that ended the loop; the loop of a worker runs in another thread."""
    loop = loop_of(engine, *(request(token, ranking=ranking, greedy=greedy) for token in tokens))
    completions: dict[int, WireCompletion] = {}
    try:
        while len(completions) < len(tokens):
            loop.step()
            completions |= {completion["key"]: completion for completion in told(loop)}
    except Exception as error:  # noqa: BLE001 - handed to the test
        return completions, error
    return completions, None


@pytest.mark.parametrize(
    ("kind", "message"),
    [("unexpected", "no such block"), ("client", "too many labels"), ("queue", "queue is full")],
)
def test_an_error_of_one_request_fails_only_that_request(engine_with, kind: str, message: str):
    completions, ended = run(engine_with({2: errors()[kind]}), [1, 2, 3])

    assert ended is None
    assert completions[1]["text"] == completions[3]["text"] == "five"
    assert message in completions[2]["error"]
    assert "vLLM rejected the request" in completions[2]["error"]


def test_the_end_of_the_engine_ends_the_run(engine_with):
    dead = errors()["dead"]

    _, ended = run(engine_with({2: dead}), [1, 2])

    assert ended is dead


def test_a_request_that_ends_without_an_answer_is_a_failed_row(monkeypatch: pytest.MonkeyPatch):
    from vllm.v1.engine.async_llm import AsyncLLM

    monkeypatch.setattr(AsyncLLM, "from_vllm_config", lambda config, **options: Copies({}))

    completions, ended = run(DataParallelEngine(SimpleNamespace(), Meter()), [1, 0])

    assert ended is None
    assert completions[1]["text"] == "five"
    assert completions[0]["error"] == "vLLM ended the request unanswered."


def test_labels_that_are_rejected_in_the_same_step_are_one_failed_row(
    monkeypatch: pytest.MonkeyPatch,
):
    from vllm.v1.engine.async_llm import AsyncLLM

    copies = Copies({2: errors()["queue"]})
    monkeypatch.setattr(AsyncLLM, "from_vllm_config", lambda config, **options: copies)
    engine = DataParallelEngine(SimpleNamespace(), Meter())
    labels = Passes(([2, 3], [2, 4]), (1, 1), (0, 1))
    loop = loop_of(engine, request(1, ranking=labels))
    loop._start_queued()
    wait_until(lambda: engine._finished.qsize() == 2)

    loop.step()

    assert ["queue is full" in completion["error"] for completion in told(loop)] == [True]


class Counting(Single):
    """Stand-in for `LLMEngine` that counts its requests at a time, and answers one per step."""

    def __init__(self) -> None:
        super().__init__({})
        self.most: list[int] = []
        self.resets: list[int] = []

    def step(self):
        self.most.append(len(self.running))
        first, *self.running = self.running
        return [answer(first)]

    def reset_prefix_cache(self):
        self.resets.append(len(self.running))
        return True


def test_a_limit_holds_from_the_next_round_on_and_empties_the_prefix_cache():
    engine = Counting()
    loop = loop_of(engine)
    most = []
    for round_, limit in enumerate((3, 1, None), 1):
        loop._queued.put(partial(loop.limit, limit))
        for key in range(10):
            loop._queued.put(request(key, round_))
        for _ in range(10):
            loop.step()
        assert len(told(loop)) == 10
        most.append(max(engine.most))
        engine.most.clear()
    assert most == [3, 1, 8]
    assert engine.resets == [0, 0, 0]


def test_the_engine_is_full_while_requests_wait_for_the_limit():
    meter = Meter()

    class Recorded(Counting):
        def step(self):
            ended = super().step()
            cached = SimpleNamespace(queries=0, hits=0)
            left = {"num_running_reqs": len(self.running), "kv_cache_usage": 0.0}
            none = {"num_waiting_reqs": 0, "num_skipped_waiting_reqs": 0}
            meter.record(SimpleNamespace(**left, **none, prefix_cache_stats=cached), None)
            time.sleep(0.01)
            return ended

    loop = loop_of(Recorded(), *map(request, range(6)), most=2, meter=meter)
    for _ in range(6):
        loop.step()
    found = meter.occupancy()

    assert found is not None
    assert (
        found.full > 0.02
    )  # four requests waited: three steps from the first to the last such one
    assert found.draining > 0.01


class Slow(Single):
    """An engine that answers nothing until it is told to."""

    answers = False

    def step(self):
        return super().step() if self.answers else []


def test_withdrawn_requests_are_dropped_whether_they_run_or_wait():
    engine = Slow({})
    loop = loop_of(engine, *map(request, range(8)), most=4)
    loop.step()
    assert len(engine.running) == 4

    loop.withdraw(1, [1, 2, 5, 100])  # running, running, waiting, never sent
    loop.withdraw(1, [6])
    loop.step()

    assert [(c["key"], c["withdrawn"]) for c in told(loop)] == [(k, True) for k in (1, 2, 5, 6)]
    assert len(engine.running) == 4
    engine.answers = True
    loop.step()
    assert [(c["key"], "withdrawn" in c) for c in told(loop)] == [(k, False) for k in (0, 3, 4, 7)]
    # The same keys in another round are other requests.
    loop._queued.put(request(1, round_=2))
    loop._start_queued()
    assert len(engine.running) == 1


def test_a_change_between_two_rounds_finds_no_request_and_the_next_round_finds_it_done():
    engine = Slow({})
    seen: list[int] = []
    loop = loop_of(
        engine,
        request(0),  # of a round that was cancelled a moment ago
        lambda: seen.append(len(engine.running)),
        request(1, round_=2),
    )
    loop.step()

    assert seen == [0]
    assert len(engine.running) == 1


def test_answers_are_collected_while_requests_with_images_are_still_added(
    monkeypatch: pytest.MonkeyPatch,
):
    engine = Slow({})
    now = [0.0]
    monkeypatch.setattr("regrade.engines.vllm_process.loop.monotonic", lambda: now[0])

    def show(ids: list[int], shown: Any) -> dict[str, Any]:
        now[0] += 0.15
        return {"prompt_token_ids": ids, "shown": shown}

    requests = [request(key, shown=("a",)) for key in range(8)]
    loop = loop_of(engine, *requests, most=64, pictures=SimpleNamespace(prompt=show))

    loop.step()
    first = len(engine.running)
    loop.step()

    assert (first, len(engine.running)) == (2, 4)
