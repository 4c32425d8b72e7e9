"""A model that cannot fit is refused before its weights are read; vLLM builds it without weights, in a fork."""

import math
import types
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors import safe_open

from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.arguments import engine_arguments, engine_config
from regrade.engines.vllm_process.engine import open_message
from regrade.engines.vllm_process.fit import check_fit, memory_at_start
from regrade.engines.vllm_process.meta_model import build_stages
from regrade.settings.errors import SettingsError
from tests.engines.vllm_process.asking import opened

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
PAGE = 128
"""Tokens in a block of vLLM's KV cache on a CPU."""


def config(model: Path, *, cache: int = 1 << 28, context: int = 512) -> Any:
    settings = VllmEngine(enforce_eager=True, extra=(f"kv_cache_memory_bytes={cache}",))
    resolved = settings.resolve_to_plan(str(model), needs_tokenizer=False)
    message = open_message(settings, resolved, PromptRendering())
    return engine_config(engine_arguments(message, is_cpu=True), context)


def test_what_a_model_needs_is_known_without_its_weights(demo_model: Path):
    need = check_fit(config(demo_model), by_memory=False)

    assert need is not None
    # 4 layers, keys and values, float32: see infra/demo/regrade-demo/config.json
    (block,) = need.bytes_per_block
    assert block == 4 * PAGE * 2 * 4 * 32 * 4
    assert need.kv_cache == ((512 // PAGE + 1) * block,)
    files = sum(file.stat().st_size for file in demo_model.glob("*.safetensors"))
    assert need.weights[0] >= files * 0.99


def test_a_request_that_exceeds_the_kv_cache_is_refused_with_the_numbers(demo_model: Path):
    with pytest.raises(
        SettingsError,
        match=r"One request of 512 tokens does not fit: it takes [1-9].* MiB of KV cache, .* 0\.2 MiB",
    ) as caught:
        check_fit(config(demo_model, cache=1 << 18), by_memory=False)

    assert "`regrade plan MODEL --gpus N` shows what fits" in str(caught.value)
    assert "Counted are the weights as vLLM keeps them" in str(caught.value)


def test_the_check_can_be_switched_off(demo_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGRADE_CHECK_FIT", "off")

    assert check_fit(config(demo_model, cache=1 << 18), by_memory=False) is not None


def test_another_value_of_the_switch_is_refused(demo_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGRADE_CHECK_FIT", "no")

    with pytest.raises(SettingsError, match="REGRADE_CHECK_FIT=no should be `on` or `off`"):
        check_fit(config(demo_model, cache=1 << 18), by_memory=False)


def test_a_length_that_vllm_chooses_by_the_memory_is_not_refused(demo_model: Path):
    assert check_fit(config(demo_model, cache=1 << 18), by_memory=True) is not None


def test_weights_that_exceed_the_memory_are_refused_with_the_numbers(
    demo_model: Path, monkeypatch: pytest.MonkeyPatch
):
    made = config(demo_model)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(total=1 << 20))

    with pytest.raises(
        SettingsError,
        match=r"The model does not fit: its weights take .* more than this machine has",
    ):
        check_fit(made, by_memory=False)


@pytest.mark.slow
def test_an_engine_that_cannot_fit_ends_before_it_loads(demo_model: Path, tmp_path: Path):
    settings = VllmEngine(
        enforce_eager=True, max_model_len=512, extra=("kv_cache_memory_bytes=262144",)
    )
    log = tmp_path / "vllm.log"
    with (
        pytest.raises(SettingsError, match="One request of 512 tokens does not fit"),
        opened(demo_model, log, settings),
    ):
        pass

    assert "Initializing a V1 LLM engine" not in log.read_text()


def test_an_engine_starts_unchecked_if_vllm_does_not_tell(
    demo_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    from regrade.engines.vllm_process import internals

    made = config(demo_model)

    def moved() -> None:
        raise ImportError("cannot import name 'get_kv_cache_capacity'")

    monkeypatch.setattr(internals, "planning_names", moved)

    assert check_fit(made, by_memory=False) is None
    assert "memory not checked before loading: cannot import name" in caplog.text
    memory = memory_at_start(made, None)
    assert (memory.weights, memory.other) == (None, None)
    assert memory.max_num_seqs > 0


def test_weights_that_are_quantised_online_are_counted_as_they_will_be(demo_model: Path):
    def weights(*, quantization: str | None) -> Any:
        settings = VllmEngine(quantization=quantization, dtype="bfloat16", enforce_eager=True)
        resolved = settings.resolve_to_plan(str(demo_model), needs_tokenizer=False)
        message = open_message(settings, resolved, PromptRendering())
        (stage,) = build_stages(
            engine_config(engine_arguments(message, is_cpu=True), 512), for_gpu=True
        )
        return stage

    plain, fp8 = weights(quantization=None), weights(quantization="fp8")
    (file,) = demo_model.glob("*.safetensors")
    with safe_open(file, "numpy") as tensors:
        linear = [name for name in tensors.keys() if name.endswith("_proj.weight")]
        halved = sum(math.prod(tensors.get_slice(name).get_shape()) for name in linear)

    assert plain.weights - fp8.weights == halved > 0
