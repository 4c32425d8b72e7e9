"""Measurements inside vLLM, against the times that its answers carry."""

import time

import pytest

from regrade.engines.base import Engine, MeasuredEngine
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.engines.vllm_process.meter import PATIENCE, Meter
from regrade.records import Request
from regrade.settings import SamplingParams
from tests.engines.vllm_process.measured import assert_measured
from tests.engines.vllm_process.test_engine import ask

TOKENS = 16


def requests(n: int) -> list[Request]:
    sampling = SamplingParams(max_tokens=TOKENS)
    return [Request(key, f"Question {key}: what is {key} plus 3?", sampling) for key in range(n)]


@pytest.mark.vllm
def test_the_engine_measures_what_its_answers_say(vllm_engine: Engine):
    completions = ask(vllm_engine, requests(40))

    assert isinstance(vllm_engine, MeasuredEngine)
    speed = vllm_engine.speed
    assert_measured(speed, completions)
    assert speed is not None
    assert 0 < speed.running_max <= 40
    assert speed.kv_cache_usage_max is not None
    assert 0 < speed.kv_cache_usage_max < 1
    assert speed.preemptions == 0


@pytest.mark.vllm
def test_each_call_is_measured_alone(vllm_engine: Engine):
    ask(vllm_engine, requests(12))
    ask(vllm_engine, requests(3))

    assert isinstance(vllm_engine, VllmProcess)
    assert vllm_engine.speed is not None
    assert vllm_engine.speed.requests == 3


@pytest.mark.vllm
def test_answers_that_were_read_in_part_have_no_measurements(vllm_engine: Engine):
    stream = vllm_engine.generate(requests(20))
    next(stream)
    stream.close()  # type: ignore[attr-defined]

    assert isinstance(vllm_engine, MeasuredEngine)
    assert vllm_engine.speed is None


def test_missing_statistics_are_waited_for_only_so_long():
    started = time.monotonic()

    speed = Meter().take(requests=5)

    assert speed.requests == 0
    assert speed.ttft is None
    assert PATIENCE <= time.monotonic() - started < 3 * PATIENCE
