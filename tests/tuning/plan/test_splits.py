import pytest

from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.planner import SplitMemory
from regrade.settings.errors import SettingsError
from regrade.stats.speed import GIB
from regrade.tuning.plan.plan import SplitPlan, rule_against, splits_of
from regrade.tuning.plan.planner import splits_with, with_memory

QWEN3_8B = {"heads": 32, "kv_heads": 8, "vocabulary": 151936, "layers": 36}


@pytest.mark.parametrize("gpus", [1, 2, 6, 8])
def test_every_split_uses_all_gpus_and_none_is_missing(gpus: int):
    splits = splits_of(gpus)

    assert all(split.tensor * split.pipeline * split.data == gpus for split in splits)
    sizes = range(1, gpus + 1)
    assert len({split.name for split in splits}) == len(splits)
    assert len(splits) == sum(t * p * d == gpus for t in sizes for p in sizes for d in sizes)


@pytest.mark.parametrize("tensor", [1, 2, 4, 8, 16, 32])
def test_heads_of_keys_and_values_are_shared_or_copied(tensor: int):
    assert rule_against(SplitPlan(tensor=tensor, pipeline=1, data=1), **QWEN3_8B) is None


@pytest.mark.parametrize(
    ("tensor", "pipeline", "changes", "says"),
    [
        (3, 1, {}, "The model has 32 attention heads, which 3 GPUs cannot share equally."),
        (2, 1, {"kv_heads": 3}, "has 3 heads of keys and values: 2 GPUs can neither share"),
        (3, 1, {"heads": 6, "kv_heads": 6, "vocabulary": 400}, "400 tokens takes 448 rows"),
        (1, 8, {"layers": 4}, "The model has 4 layers, too few for 8 groups."),
    ],
)
def test_what_cannot_be_shared_breaks_a_rule(
    tensor: int, pipeline: int, changes: dict[str, int], says: str
):
    split = SplitPlan(tensor=tensor, pipeline=pipeline, data=1)

    assert says in (rule_against(split, **QWEN3_8B | changes) or "")


def test_parallel_sizes_that_are_set_are_kept():
    splits = splits_with(VllmEngine(tensor_parallel_size=2), 8)

    assert {split.tensor for split in splits} == {2}
    assert len(splits) == 3


def test_parallel_sizes_that_no_split_has_are_refused():
    with pytest.raises(SettingsError, match="No split of 8 GPUs has the parallel sizes"):
        splits_with(VllmEngine(tensor_parallel_size=3), 8)


@pytest.mark.parametrize(("usable", "lacking"), [(24, 0), (20, 2)])
def test_a_gpu_lacks_what_the_weights_the_margin_and_one_request_exceed(usable: int, lacking: int):
    room = usable - 16 - 4
    memory = SplitMemory(
        weights=(16 * GIB,),
        parameters=8,
        usable=usable * GIB,
        kv_cache=(room * GIB,),
        needed=(2 * GIB,),
        tokens=100,
        concurrency=1.0,
    )

    found = with_memory(splits_of(1)[0], memory, reserved=4 * GIB)

    assert found.lacking == lacking * GIB
    assert found.fits == (lacking == 0)
