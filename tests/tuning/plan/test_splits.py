import pytest

from regrade.tuning.plan.estimate import Split, rule_against, splits_of

QWEN3_8B = {"heads": 32, "kv_heads": 8, "vocabulary": 151936, "layers": 36}


@pytest.mark.parametrize("gpus", [1, 2, 6, 8])
def test_every_split_uses_all_gpus_and_none_is_missing(gpus: int):
    splits = splits_of(gpus)

    assert all(split.tensor * split.pipeline * split.data == gpus for split in splits)
    sizes = range(1, gpus + 1)
    assert len(set(splits)) == len(splits)
    assert len(splits) == sum(t * p * d == gpus for t in sizes for p in sizes for d in sizes)


@pytest.mark.parametrize("tensor", [1, 2, 4, 8, 16, 32])
def test_heads_of_keys_and_values_are_shared_or_copied(tensor: int):
    assert rule_against(Split(tensor, 1, 1), **QWEN3_8B) is None


def test_attention_heads_that_cannot_be_shared_break_a_rule():
    assert rule_against(Split(3, 1, 1), **QWEN3_8B) == (
        "The model has 32 attention heads, which 3 GPUs cannot share equally."
    )


def test_heads_of_keys_and_values_that_can_neither_be_shared_nor_copied_break_a_rule():
    rule = rule_against(Split(2, 1, 1), heads=12, kv_heads=3, vocabulary=151936, layers=4)
    assert rule is not None
    assert rule.startswith("The model has 3 heads of keys and values: 2 GPUs can neither share")


def test_a_padded_vocabulary_that_cannot_be_shared_breaks_a_rule():
    rule = rule_against(Split(3, 1, 1), heads=6, kv_heads=6, vocabulary=400, layers=4)
    assert rule is not None
    assert "400 tokens takes 448 rows" in rule


def test_more_groups_than_layers_break_a_rule():
    rule = rule_against(Split(1, 8, 1), heads=4, kv_heads=4, vocabulary=400, layers=4)
    assert rule == "The model has 4 layers, too few for 8 groups."
