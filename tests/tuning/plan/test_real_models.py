"""vLLM's own classes on configurations of real models; nothing is downloaded and no weights exist."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from regrade.tuning.plan.plan import SplitPlan, rule_against
from tests.command_line import ROOT

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
GIB = 1 << 30

KNOWN = {
    "Qwen--Qwen3-0.6B": 596_049_920,
    "Qwen--Qwen3-1.7B": 1_720_574_976,
    "Qwen--Qwen3-8B": 8_190_735_360,
    "Qwen--Qwen3-32B": 32_762_123_264,
    "Qwen--Qwen3-32B-FP8": 32_762_123_264,
    "Qwen--Qwen3-32B-FP8-Static-PerTensor": 32_762_123_264,
    "Qwen--Qwen3-30B-A3B": 30_532_122_624,
    "Qwen--Qwen3-30B-A3B-FP8": 30_532_122_624,
    "Qwen--Qwen3-235B-A22B": 235_093_634_560,
    "Qwen--Qwen3-235B-A22B-FP8": 235_093_634_560,
    "Qwen--Qwen3-Coder-480B-A35B-Instruct": 480_154_875_392,
    "meta-llama--Meta-Llama-3.1-8B": 8_030_261_248,
    "meta-llama--Meta-Llama-3.1-70B": 70_553_706_496,
    "meta-llama--Meta-Llama-3.1-405B": 405_853_388_800,
    "nvidia--Llama-3.1-70B-Instruct-FP8": 70_553_706_496,
    "mistralai--Mixtral-8x7B-v0.1": 46_702_792_704,
    "mistralai--Mixtral-8x22B-v0.1": 140_620_634_112,
    "deepseek-ai--DeepSeek-V3": 671_026_419_200,
    "deepseek-ai--DeepSeek-R1": 671_026_419_200,
    "moonshotai--Kimi-K2-Instruct": 1_026_408_232_448,
    "MiniMaxAI--MiniMax-M2.5": 228_700_000_000,
    "XiaomiMiMo--MiMo-V2-Flash": 309_000_000_000,
    "nvidia--Nemotron-H-56B-Base-8K": 56_300_000_000,
}
"""Numbers of parameters that the models' pages state, tied embeddings once, without layers for speculative decoding."""


def asked(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tuning.plan.asking"],
        cwd=ROOT,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"},
        input=orjson.dumps(list(cases)),
        capture_output=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    answers: list[dict[str, Any]] = orjson.loads(done.stdout)
    return answers


def alone(folder: Path, **changes: Any) -> dict[str, Any]:
    return {"folder": str(folder), "tensor": 1, "pipeline": 1, "data": 1, **changes}


@pytest.fixture
def real(model_configs: Path, tmp_path: Path):
    def folder(name: str) -> Path:
        made = tmp_path / name
        made.mkdir(exist_ok=True)
        shutil.copy(model_configs / f"{name}_config.json", made / "config.json")
        return made

    return folder


def test_parameters_of_real_models_are_those_that_their_pages_state(real):
    answers = asked([alone(real(name)) for name in KNOWN])

    counted = dict(zip(KNOWN, answers, strict=True))
    assert len(counted) >= 20
    for name, memory in counted.items():
        assert memory["refused"] is None, (name, memory["refused"])
        assert memory["parameters"] == pytest.approx(KNOWN[name], rel=0.01), name


def test_known_sizes_of_weights_and_kv_caches(real):
    llama, gpt, deepseek, qwen = (
        real(name)
        for name in (
            "meta-llama--Meta-Llama-3.1-70B",
            "openai--gpt-oss-120b",
            "deepseek-ai--DeepSeek-V3",
            "Qwen--Qwen3-8B",
        )
    )
    eight = {"tensor": 8}
    split, halves, packed, latent, latent_8, thirds, copied = asked(
        [
            alone(llama, **eight),
            alone(llama, tensor=4, pipeline=2),
            alone(gpt),
            alone(deepseek),
            alone(deepseek, **eight),
            alone(qwen, pipeline=3),
            alone(qwen, tensor=16),
        ]
    )

    # 320 KiB for a token of all 80 layers, and a block of 16 tokens that vLLM keeps.
    assert split["needed"] == [(1024 + 16) * 320 * 1024 // 8]
    assert split["weights"][0] * 8 == pytest.approx(70.55e9 * 2, rel=0.01)
    # A stage has half of the layers, on half as many GPUs.
    assert halves["needed"] == [split["needed"][0]] * 2
    assert packed["weights"][0] == pytest.approx(
        65.2e9, rel=0.01
    )  # MXFP4, as the checkpoint's files
    assert latent["needed"] == latent_8["needed"]  # every GPU keeps all of it
    # The stages at the ends have the embeddings.
    first, middle, last = thirds["weights"]
    assert first == pytest.approx(last, rel=0.001)
    assert first - middle == pytest.approx(151936 * 4096 * 2, rel=0.01)
    assert sum(thirds["weights"]) == pytest.approx(8_190_735_360 * 2, rel=0.01)
    # Each of the 8 heads of keys and values is on 2 of 16 GPUs.
    assert copied["needed"] == [(1024 + 16) * 36 * 2 * 128 * 2]


def test_weights_that_vllm_quantises_while_it_loads_fit_where_they_will(real):
    """On an H200 vLLM may use 129 GiB, on an H100 73 GiB."""
    fp8 = {"settings": {"quantization": "fp8"}}
    llama, qwen = asked(
        [
            alone(real("meta-llama--Meta-Llama-3.1-70B"), **fp8),
            alone(real("Qwen--Qwen3-235B-A22B"), tensor=4, **fp8),
        ]
    )

    assert (llama["refused"], qwen["refused"]) == (None, None)
    # A byte for each weight of the layers; the embeddings stay as they are.
    embeddings = 2 * 128_256 * 8192
    assert llama["weights"][0] == pytest.approx(70.55e9 + embeddings, rel=0.01)
    assert llama["weights"][0] < 129 * GIB
    assert qwen["weights"][0] == pytest.approx(235.1e9 / 4, rel=0.03)
    assert qwen["weights"][0] < 73 * GIB


def test_copies_of_a_model_with_experts_share_them(real):
    folder = real("Qwen--Qwen3-30B-A3B")
    one, eight = asked([alone(folder), alone(folder, data=8)])

    assert eight["weights"][0] < one["weights"][0] / 4


def test_vllm_refuses_what_breaks_a_rule(real, tmp_path: Path):
    base = json.loads((real("Qwen--Qwen3-0.6B") / "config.json").read_text())
    changes = {
        "heads": ({}, 3, "attention heads"),
        "keys": ({"num_attention_heads": 12, "num_key_value_heads": 3}, 2, "heads of keys"),
        "rows": (
            {"num_attention_heads": 6, "num_key_value_heads": 6, "vocab_size": 400},
            3,
            "448 rows",
        ),
    }
    cases = []
    for name, (changed, tensor, _) in changes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**base, **changed}))
        cases.append(alone(tmp_path / name, tensor=tensor))

    for memory, (_, tensor, says) in zip(asked(cases), changes.values(), strict=True):
        assert memory["refused"]
        facts = {name: memory[name] for name in ("heads", "kv_heads", "vocabulary", "layers")}
        rule = rule_against(SplitPlan(tensor=tensor, pipeline=1, data=1), **facts)
        assert rule is not None
        assert says in rule
