"""The planned KV cache is exactly that of the real engine; tests/cli/test_plan.py has the case of the demo model."""

from pathlib import Path
from typing import Any

import pytest

from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.records import Request
from regrade.settings import SamplingParams
from regrade.tuning.plan.plan import SplitPlan
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from tests.architectures import random_model

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
KV_CACHE = 268435456
SETTINGS = VllmEngine(
    enforce_eager=True, max_model_len=512, extra=(f"kv_cache_memory_bytes={KV_CACHE}",)
)
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "grouped queries": ("llama", {}),
    "a head of keys and values per query": ("llama", {"num_key_value_heads": 4}),
    "one head of keys and values": ("llama", {"num_key_value_heads": 1}),
    "sliding windows and full attention": ("gemma3_text", {}),
    "Mamba and attention": ("nemotron_h", {}),
    "experts, windows and sinks": ("gpt_oss", {}),
}


def planned(model: Path, engine: VllmEngine, log: Path) -> SplitPlan:
    request = PlanRequest(model=str(model), engine=engine, answers=str(log.parent / "answers"))
    plan = make_memory_plan(request, log=log)
    (split,) = plan.splits
    return split


@pytest.mark.parametrize("shape", SHAPES)
def test_the_tokens_of_other_shapes_are_the_engines(shape: str, demo_model: Path, tmp_path: Path):
    model_type, changes = SHAPES[shape]
    folder = random_model(model_type, demo_model, tmp_path / "model", **changes)
    greedy = SamplingParams(temperature=0, max_tokens=4)
    opened = SETTINGS.open(
        SETTINGS.resolve(str(folder)),
        requests=[[Request(0, "1 plus 1", greedy)]],
        rendering=PromptRendering(),
        log=tmp_path / "vllm.log",
    )
    with opened as engine:
        memory = engine.info.memory
    assert memory is not None

    split = planned(folder, SETTINGS, tmp_path / "plan.log")

    assert split.tokens == memory.kv_cache_tokens
    assert split.concurrency == memory.kv_cache_concurrency
    assert split.weights == (memory.weights,)
    assert memory.kv_cache is not None
    assert KV_CACHE * 0.9 < memory.kv_cache <= KV_CACHE
