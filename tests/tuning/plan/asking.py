"""Ask vLLM for the memory of splits of several models: `python -m tests.tuning.plan.asking` reads cases and prints answers.

One process imports vLLM once; a planner starts one for each model.
"""

import sys
from typing import Any

import orjson

from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.engine import open_message
from regrade.engines.vllm_process.plan_worker import Planner

GIB = 1 << 30


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """The memory of a split: `folder`, `tensor`, `pipeline`, `data`, and further `settings` of the engine."""
    settings = VllmEngine(max_model_len=1024, **case.get("settings", {}))
    model = settings.resolve_to_plan(case["folder"], needs_tokenizer=False)
    opening = open_message(settings, model, PromptRendering())
    planner = Planner({**opening, "target": {"name": "large", "memory": 2048 * GIB}})
    planner.built_here = True  # each in a fork: models differ
    facts = planner.length(iter([{"type": "load"}]))
    return {**facts, **planner.split({**case, "reserved": 0})}


def main() -> None:
    cases = orjson.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(orjson.dumps([answer(case) for case in cases]))


if __name__ == "__main__":
    main()
