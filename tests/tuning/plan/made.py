"""Plans of memory, made without vLLM."""

from typing import Any

from regrade.stats.speed import GIB
from regrade.tuning.plan.plan import ChosenSplit, Margin, MemoryPlan, SplitPlan, Target

FITTING = SplitPlan(
    tensor=2,
    pipeline=1,
    data=4,
    weights=(30 * GIB,),
    kv_cache=(35 * GIB,),
    kv_cache_needed=(GIB,),
    tokens=284976,
    concurrency=69.5,
)
LACKING = SplitPlan(
    tensor=1,
    pipeline=2,
    data=4,
    weights=(61 * GIB, 60 * GIB),
    kv_cache=(-GIB, -2 * GIB),
    kv_cache_needed=(GIB, GIB),
    tokens=0,
    concurrency=0.0,
    lacking=3 * GIB,
)
REFUSED = tuple(
    SplitPlan(tensor=tensor, pipeline=1, data=1, refused="The model has 32 attention heads.")
    for tensor in (3, 6)
)
WITHOUT_KV_CACHE = FITTING.model_copy(update={"tensor": 8, "tokens": None, "concurrency": None})


def split(
    tensor: int, data: int, concurrency: float | None, *, pipeline: int = 1, **more: Any
) -> SplitPlan:
    """A split of which only the sizes matter, and the requests that a copy holds."""
    return SplitPlan(tensor=tensor, pipeline=pipeline, data=data, concurrency=concurrency, **more)


def plan(*splits: SplitPlan, chosen: SplitPlan | None = FITTING) -> MemoryPlan:
    """A plan of these splits, with its first choice."""
    choice = None
    if chosen is not None:
        sizes = {"tensor": chosen.tensor, "pipeline": chosen.pipeline, "data": chosen.data}
        choice = ChosenSplit(**sizes, reason="it fits.")
    return MemoryPlan(
        model="org/model",
        revision="a" * 40,
        parameters=32_762_123_264,
        vllm="0.32.0",
        target=Target(gpu="h100", gpus=8, memory=80 * GIB, usable=73 * GIB),
        dtype="bfloat16",
        max_model_len=4096,
        length_source="as given",
        margin=Margin(bytes=8 * GIB, measured=False, source="8.0 GiB assumed."),
        splits=splits,
        choice=choice,
        advice="it fits." if choice else "nothing fits: 3.0 GiB per GPU too little.",
    )
