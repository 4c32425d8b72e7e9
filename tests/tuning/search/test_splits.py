"""Splits to try: those of the plan, the choice first, and what was set by hand stays."""

from typing import Any

from regrade.engines.vllm import VllmEngine
from regrade.tuning.plan.plan import Choice, Margin, MemoryPlan, SplitPlan, Target
from regrade.tuning.search.splits import splits_to_try


def split(tensor: int, data: int, concurrency: float, **changes: Any) -> SplitPlan:
    return SplitPlan(tensor=tensor, pipeline=1, data=data, concurrency=concurrency, **changes)


PLAN = MemoryPlan(
    model="org/name",
    revision="a" * 40,
    parameters=8,
    vllm="0.32.0",
    target=Target(gpu="h100", gpus=4, memory=80, usable=70),
    dtype="bfloat16",
    max_model_len=1000,
    length_source="the benchmark",
    margin=Margin(bytes=1, measured=False, source="assumed"),
    splits=(split(1, 4, 2.0, lacking=5), split(2, 2, 120.0), split(4, 1, 500.0)),
    choice=Choice(tensor=2, pipeline=1, data=2, reason="fits"),
    advice="fits",
)


def test_the_choice_of_the_plan_comes_first_and_what_does_not_fit_is_left_out():
    found = splits_to_try(VllmEngine(), PLAN)
    assert [tuple(split.settings.values()) for split in found] == [(2, 1, 2), (4, 1, 1)]
    assert [split.most_in_flight for split in found] == [960, 2000]


def test_sizes_that_were_set_by_hand_stay():
    (found,) = splits_to_try(VllmEngine(tensor_parallel_size=4), PLAN)
    assert found.settings["data_parallel_size"] == 1
    (unplanned,) = splits_to_try(VllmEngine(tensor_parallel_size=8), PLAN)
    assert unplanned.settings == {"tensor_parallel_size": 8}


def test_tokens_of_a_step_that_were_set_by_hand_are_in_every_split():
    engine = VllmEngine(max_num_batched_tokens=4096)
    for found in (splits_to_try(engine, PLAN), splits_to_try(engine)):
        assert {split.settings["max_num_batched_tokens"] for split in found} == {4096}


def test_without_a_plan_the_settings_are_as_they_are():
    assert [split.settings for split in splits_to_try(VllmEngine())] == [{}]
