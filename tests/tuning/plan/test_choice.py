from regrade.stats.speed import GIB
from regrade.tuning.plan.plan import Margin, SplitPlan, Target, choose, what_would_fit
from tests.tuning.plan.made import split


def chosen_of(splits: list[SplitPlan], max_model_len: int) -> tuple[tuple[int, int, int], str]:
    """Return the sizes of the chosen split, and the reason."""
    chosen = choose(splits, max_model_len)
    assert chosen is not None
    return (chosen.tensor, chosen.pipeline, chosen.data), chosen.reason


def test_the_fewest_gpus_per_copy_with_room_for_100_requests_are_chosen():
    splits = [split(1, 8, 40), split(2, 4, 120), split(4, 2, 300), split(8, 1, 650)]

    sizes, reason = chosen_of(splits, 4096)

    assert sizes == (2, 1, 4)
    assert "at least 100 requests of 4,096 tokens (120), and 4 copies" in reason


def test_without_room_for_100_the_split_with_most_room_in_all_copies_is_chosen():
    splits = [split(1, 8, 1.5), split(2, 4, 8), split(4, 2, 20), split(8, 1, 39)]

    sizes, reason = chosen_of(splits, 32768)

    assert sizes == (4, 1, 2)
    assert "no copy holds 100 requests" in reason
    assert "(40.0 in all copies)" in reason


def test_what_does_not_fit_or_is_refused_is_never_chosen():
    splits = [
        split(1, 4, 500, lacking=1),
        split(2, 2, 500, refused="The model has 3 heads."),
        split(4, 1, 7),
    ]

    assert chosen_of(splits, 1024)[0] == (4, 1, 1)


def test_pipeline_parallel_is_chosen_only_if_nothing_else_fits():
    flat, deep = split(8, 1, 3), split(1, 1, 500, pipeline=8)

    assert chosen_of([deep, flat], 1024)[0] == (8, 1, 1)
    sizes, reason = chosen_of([deep, split(8, 1, 3, lacking=GIB)], 1024)

    assert sizes == (1, 8, 1)
    assert "without pipeline parallel nothing fits" in reason


def test_if_nothing_fits_the_smallest_lack_is_told():
    splits = [
        split(1, 2, 0, lacking=20 * GIB),
        split(2, 1, 0, lacking=3 * GIB, weights=(22 * GIB,), kv_cache_needed=(2 * GIB,)),
    ]

    assert choose(splits, 1024) is None
    target = Target(gpu=None, gpus=2, memory=24 * GIB, usable=22 * GIB)
    advice = what_would_fit(splits, target, Margin(bytes=2 * GIB, measured=False, source="assumed"))
    assert "TP 2 x PP 1 x DP 1 lacks least, 3.0 GiB on each GPU." in advice
    assert (
        "The weights need at least 3 such GPUs for a copy." in advice
    )  # 44 GiB, 18 GiB of room each


def test_a_model_without_kv_cache_gets_the_fewest_gpus_that_hold_it():
    splits = [split(1, 2, None, lacking=GIB), split(2, 1, None)]

    assert chosen_of(splits, 1024)[0] == (2, 1, 1)
