"""The formula, which is used only if vLLM cannot tell."""

import json
from pathlib import Path

import pytest

from regrade.engines.vllm_process.planner import Refused, SplitMemory
from regrade.settings.errors import SettingsError
from regrade.stats.speed import GIB
from regrade.tuning.plan.estimate import (
    Formula,
    Split,
    dtype_of,
    estimated_weights,
    sizes_of,
    weight_bytes,
)

# Of the checkpoint's config.json on the Hub.
QWEN3_8B = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 40960,
}
LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
KNOWN = {
    "Qwen--Qwen3-0.6B": 596_049_920,
    "Qwen--Qwen3-32B": 32_762_123_264,
    "Qwen--Qwen3-235B-A22B": 235_093_634_560,
    "mistralai--Mixtral-8x7B-v0.1": 46_702_792_704,
    "deepseek-ai--DeepSeek-V3": 671_026_419_200,
    "meta-llama--Meta-Llama-3.1-405B": 405_853_388_800,
    "moonshotai--Kimi-K2-Instruct": 1_026_408_232_448,
    "openai--gpt-oss-120b": 116_829_156_672,
    "openai--gpt-oss-20b": 20_914_757_184,
    "MiniMaxAI--MiniMax-M2.5": 228_700_000_000,
}
"""Published numbers of parameters."""


def formula(config: dict, length: int, **changes) -> Formula:
    sizes = sizes_of(config)
    values = {
        "config": config,
        "sizes": sizes,
        "weights": estimated_weights(config, sizes, "bfloat16", None),
        "kv_value": 2.0,
        "dtype": "bfloat16",
        "max_model_len": length,
    }
    return Formula(**(values | changes))


@pytest.mark.parametrize("name", KNOWN)
def test_parameters_are_those_of_real_models(name: str, model_configs: Path):
    config = json.loads((model_configs / f"{name}_config.json").read_text())

    assert sizes_of(config).parameters == pytest.approx(KNOWN[name], rel=0.01)


def test_heads_of_keys_and_values_decide_the_kv_cache():
    """Llama 3 with 70 B parameters keeps 320 KiB for a token, 40 GiB for 131,072 tokens, and not eight times that."""
    memory = formula(LLAMA_70B, 131072).split(Split(8, 1, 1), usable=74 * GIB, reserved=8 * GIB)

    assert isinstance(memory, SplitMemory)
    assert memory.needed == (5 * GIB,)
    assert memory.weights[0] == pytest.approx(70.55e9 * 2 / 8, rel=0.01)
    assert memory.tokens == (74 * GIB - 8 * GIB - memory.weights[0]) // (40 * 1024)


def test_a_head_is_on_at_least_one_gpu():
    needed = [
        formula(QWEN3_8B, 1024).split(Split(tensor, 1, 1), usable=70 * GIB, reserved=0).needed
        for tensor in (8, 16)
    ]

    assert needed[0] == needed[1]


def test_of_latent_attention_every_gpu_keeps_all(model_configs: Path):
    config = json.loads((model_configs / "deepseek-ai--DeepSeek-V3_config.json").read_text())
    plan = formula(config, 1024)

    alone, shared = (
        plan.split(Split(tensor, 1, 1), usable=900 * GIB, reserved=0) for tensor in (1, 8)
    )

    assert isinstance(alone, SplitMemory)
    assert isinstance(shared, SplitMemory)
    assert alone.needed == shared.needed == (61 * 576 * 2 * 1024,)


def test_a_split_that_breaks_a_rule_is_refused():
    memory = formula(QWEN3_8B, 1024).split(Split(3, 1, 1), usable=70 * GIB, reserved=0)

    assert isinstance(memory, Refused)
    assert "32 attention heads" in memory.reason


def test_files_of_weights_are_believed_more_than_the_formula():
    assert estimated_weights(QWEN3_8B, sizes_of(QWEN3_8B), "bfloat16", 123) == 123


def test_quantised_weights_are_smaller():
    four_bits = {**QWEN3_8B, "quantization_config": {"quant_method": "awq", "bits": 4}}
    fp8 = {**QWEN3_8B, "quantization_config": {"quant_method": "fp8"}}

    assert weight_bytes(QWEN3_8B, "bfloat16") == 2
    assert weight_bytes(fp8, "bfloat16") == 1
    assert weight_bytes(four_bits, "bfloat16") == pytest.approx(0.53)


def test_a_float32_checkpoint_is_held_in_half_precision_on_a_gpu():
    config = {**QWEN3_8B, "torch_dtype": "float32"}

    assert dtype_of(config, "auto", is_cpu=False) == "bfloat16"
    assert dtype_of(config, "auto", is_cpu=True) == "float32"
    assert dtype_of(config, "float16", is_cpu=False) == "float16"


def test_a_model_of_another_kind_is_not_estimated():
    config = {name: value for name, value in QWEN3_8B.items() if name != "num_attention_heads"}

    with pytest.raises(SettingsError, match="has no 'num_attention_heads'"):
        sizes_of(config)


@pytest.mark.parametrize(
    "name",
    [
        "nvidia--Nemotron-H-56B-Base-8K",
        "Qwen--Qwen3.5-27B",
        "zai-org--GLM-5",
        "google--gemma-4-26B-A4B",
    ],
)
def test_a_model_that_the_formula_would_get_wrong_is_refused(name: str, model_configs: Path):
    config = json.loads((model_configs / f"{name}_config.json").read_text())

    with pytest.raises(SettingsError, match="the formula does not know models of type"):
        sizes_of(config)


def test_parts_for_images_are_counted_only_with_the_files(model_configs: Path):
    config = json.loads((model_configs / "Qwen--Qwen3-VL-8B-Instruct_config.json").read_text())
    sizes = sizes_of(config)

    with pytest.raises(SettingsError, match="does not know its 'vision_config'"):
        estimated_weights(config, sizes, "bfloat16", None)
    assert estimated_weights(config, sizes, "bfloat16", 17_534_247_392) == 17_534_247_392
