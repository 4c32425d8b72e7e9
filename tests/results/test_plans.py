from collections.abc import Sequence

from regrade.stats.speed import GIB
from regrade.text.blocks import Table
from regrade.text.markdown import markdown
from regrade.tuning.plan.plan import ChosenSplit, Margin, MemoryPlan, SplitPlan, Target
from regrade.tuning.plan.text import blocks, refused_lines

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
REFUSED = SplitPlan(tensor=3, pipeline=1, data=1, refused="The model has 32 attention heads.")


def plan(*splits: SplitPlan, chosen: SplitPlan | None = FITTING, **changes) -> MemoryPlan:
    choice = None
    if chosen is not None:
        sizes = {"tensor": chosen.tensor, "pipeline": chosen.pipeline, "data": chosen.data}
        choice = ChosenSplit(**sizes, reason="it fits.")
    fields = {
        "model": "org/model",
        "revision": "a" * 40,
        "parameters": 32_762_123_264,
        "vllm": "0.32.0",
        "target": Target(gpu="h100", gpus=8, memory=80 * GIB, usable=73 * GIB),
        "dtype": "bfloat16",
        "max_model_len": 4096,
        "length_source": "as given",
        "margin": Margin(bytes=8 * GIB, measured=False, source="8.0 GiB assumed."),
        "splits": splits,
        "choice": choice,
        "advice": "it fits.",
    }
    return MemoryPlan(**(fields | changes))


def rows(made: MemoryPlan) -> Sequence[Sequence[str]]:
    (table,) = (block for block in blocks(made) if isinstance(block, Table))
    return table.rows


def test_splits_that_are_refused_for_the_same_reason_share_a_line():
    other = REFUSED.model_copy(update={"tensor": 6})

    assert refused_lines(plan(FITTING, REFUSED, other)) == [
        "TP 3 x PP 1 x DP 1, TP 6 x PP 1 x DP 1: The model has 32 attention heads."
    ]


def test_a_model_without_kv_cache_shows_none():
    split = FITTING.model_copy(update={"tokens": None, "concurrency": None})

    (row,) = rows(plan(split))

    assert row[3:6] == ("-", "-", "-")


def test_names_of_models_are_no_markup_on_the_page():
    page = markdown(blocks(plan(FITTING, model="org/<img src=x>")))

    assert "<img" not in page
    assert "| TP 2 x PP 1 x DP 4 | 30.0 GiB |" in page
