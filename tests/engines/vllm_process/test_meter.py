"""Measurements inside vLLM, against the times that its answers carry."""

import time
from pathlib import Path
from typing import Any

import pytest

from regrade.engines.base import Engine, MeasuredEngine, PromptRendering
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.engines.vllm_process.meter import PATIENCE, Meter
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.models.base import ResolvedModel
from regrade.records import Request
from regrade.settings import SamplingParams
from regrade.stats.speed import Speed
from tests.builders import specification
from tests.engines.vllm_process.asking import ask
from tests.engines.vllm_process.measured import assert_measured

TOKENS = 16


def requests(n: int, max_tokens: int = TOKENS) -> list[Request]:
    sampling = SamplingParams(max_tokens=max_tokens)
    return [Request(key, f"Question {key}: what is {key} plus 3?", sampling) for key in range(n)]


@pytest.mark.vllm
def test_the_engine_measures_what_its_answers_say(vllm_engine: Engine):
    completions = ask(vllm_engine, requests(40))

    assert isinstance(vllm_engine, MeasuredEngine)
    speed = vllm_engine.measure()
    assert_measured(speed, completions)
    assert speed is not None
    assert 0 < speed.running_max <= 40
    assert speed.kv_cache_usage_max is not None
    assert 0 < speed.kv_cache_usage_max < 1
    assert speed.preemptions == 0


@pytest.mark.vllm
def test_the_engine_says_how_full_it_was(vllm_engine: Engine):
    started = time.monotonic()
    ask(
        vllm_engine, requests(600, 4 * TOKENS)
    )  # more than it takes at a time, and long enough to wait for each other
    seconds = time.monotonic() - started

    assert isinstance(vllm_engine, MeasuredEngine)
    found = vllm_engine.occupancy
    assert found is not None
    assert found.full > found.filling
    assert found.full_rate is not None
    assert found.full_rate * found.full <= 600 * 5 * TOKENS
    assert found.draining > 0
    busy = found.filling + found.full + found.draining + found.idle
    assert 0.5 * seconds < busy <= seconds


@pytest.mark.vllm
def test_each_call_is_measured_alone(vllm_engine: Engine):
    ask(vllm_engine, requests(12))
    ask(vllm_engine, requests(3))

    assert isinstance(vllm_engine, VllmProcess)
    assert vllm_engine.measure() is not None
    assert vllm_engine.measure().requests == 3


@pytest.mark.vllm
def test_answers_that_were_read_in_part_have_no_measurements(vllm_engine: Engine):
    stream = vllm_engine.generate(requests(20))
    next(stream)
    stream.close()  # type: ignore[attr-defined]

    assert isinstance(vllm_engine, MeasuredEngine)
    assert vllm_engine.measure() is None


def test_missing_statistics_are_waited_for_only_so_long():
    started = time.monotonic()

    speed = Meter().take(requests=5)

    assert speed.requests == 0
    assert speed.ttft is None
    assert PATIENCE <= time.monotonic() - started < 3 * PATIENCE


class OneProcess:
    """The channel of a worker that answers in a fixed order."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.channel, self._messages = self, [*messages]
        self.sent: list[str] = []

    def has_message(self, _: float = 0.0) -> bool:
        return False

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message["type"])

    def receive(self) -> dict[str, Any]:
        return self._messages.pop(0)


def test_an_answer_that_comes_before_the_measurements_asked_for_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def answered(key: int) -> dict[str, Any]:
        fields = {"key": key, "prompt": "p", "text": "t"}
        return {"type": "completions", "round": 1, "completions": [fields]}

    def measured(requests: int) -> dict[str, Any]:
        speed = Speed(requests=requests).model_dump()
        return {"type": "measured", "round": 1, "speed": speed, "occupancy": None}

    process = OneProcess(answered(0), answered(1), measured(1), measured(2))
    model = ResolvedModel(specification().model, path="m", revision=None, answers_chats=True)
    engine = VllmProcess(
        VllmSettings(), model, requests=(), rendering=PromptRendering(), log=tmp_path / "log"
    )
    for name, value in {"_process": process, "_info": object(), "_window": 8}.items():
        setattr(engine, name, value)
    monkeypatch.setattr(engine, "_receive", process.receive)
    monkeypatch.setattr(engine, "_send", process.send)

    answers = engine.generate(requests(2))
    keys = [next(answers)[0].key]
    early = engine.measure()
    keys += [done.key for batch in answers for done in batch]
    late = engine.measure()

    assert keys == [0, 1]
    assert early is not None
    assert late is not None
    assert (early.requests, late.requests) == (1, 2)
    assert process.sent == ["requests", "measure", "measure"]
