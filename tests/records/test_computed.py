"""Differences in what two engines compute."""

import pytest

from regrade.records import computed as module
from regrade.records.computed import BatchCheck, Computed, computed_differences

H100 = Computed(
    dtype="bfloat16",
    quantization="fp8",
    layers=("Fp8LinearMethod",),
    kernels=("CutlassFP8ScaledMMLinearKernel",),
    variables={},
    runner="V2",
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"dtype": None, "variables": None}, []),
        ({"runner": "V1"}, [("runner: V2 against V1", True)]),
        ({"variables": {"VLLM_GC_DEBUG": "1"}}, [("VLLM_GC_DEBUG: not set against 1", True)]),
        (
            {"variables": {"VLLM_MARLIN_INPUT_DTYPE": "int8"}},
            [("VLLM_MARLIN_INPUT_DTYPE: not set against int8", False)],
        ),
        (
            {"layers": ("Fp8LinearMethod, 16-bit activations",)},
            [("layers: Fp8LinearMethod against Fp8LinearMethod, 16-bit activations", False)],
        ),
        ({"layers": ()}, [("layers: Fp8LinearMethod against none", False)]),
        ({"dtype": "float16"}, [("dtype: bfloat16 against float16", False)]),
    ],
    ids=str,
)
def test_what_changes_answers_is_told_from_what_rounds_otherwise(
    changes: dict[str, object], expected: list[tuple[str, bool]]
):
    found = computed_differences(H100, H100.model_copy(update=changes))

    assert [(str(difference), difference.rounding) for difference in found] == expected


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_variable_that_changes_answers_is_one_of_vllms():
    from vllm import envs

    assert envs.environment_variables.keys() >= module._CHANGES_ANSWERS


def test_answers_in_a_batch_are_compared_with_those_alone_up_to_the_first_other_token():
    alone = [[(1, -0.5), (2, -0.25), (3, -1.0)], [(4, -2.0)]]
    other = [[(1, -0.5), (7, -0.26), (8, -9.0)], [(4, -2.0000001)]]

    assert BatchCheck.of(alone, alone * 2) == BatchCheck(tokens=8, differing=0, largest=0.0)
    check = BatchCheck.of(alone, alone + other)
    assert (check.tokens, check.differing) == (4 + 3, 2)
    assert check.largest == pytest.approx(1e-7)
