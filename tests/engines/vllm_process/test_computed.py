"""Computation of vLLM for a configuration and an environment."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.engines.vllm_process import computed as module
from regrade.engines.vllm_process.meta_model import _chosen

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize(
    ("name", "value", "recorded"),
    [
        ("VLLM_MARLIN_INPUT_DTYPE", "int8", "int8"),
        ("VLLM_MOE_ROUTING_SIMULATION_STRATEGY", "uniform_random", "uniform_random"),
        ("VLLM_OF_A_PLUGIN", "1", "1"),
        ("VLLM_MARLIN_INPUT_DTYPE", "int5", "int5"),  # which vLLM refuses when it reads it
        ("VLLM_USE_DEEP_GEMM", "1", None),  # vLLM's default
        ("VLLM_WORKER_MULTIPROC_METHOD", "spawn", None),  # set by regrade
        ("VLLM_WORKER_MULTIPROC_METHOD", "fork", None),
        ("VLLM_RPC_BASE_PATH", "/scratch", None),
        ("VLLM_CACHE_ROOT", "/home/someone", "set"),
        ("VLLM_HOST_IP", "10.0.0.1", "set"),
    ],
)
def test_variables_that_differ_from_vllms_defaults_are_recorded_without_places(
    name: str, value: str, recorded: str | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(name, value)

    assert module.variables({name: value}) == ({} if recorded is None else {name: recorded})


@pytest.mark.parametrize(("length", "factors"), [(4096, "short factors"), (4097, "long factors")])
def test_the_context_chooses_the_factors_of_longrope(length: int, factors: str):
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 4096}

    assert module._rope(SimpleNamespace(rope_parameters=rope), length) == factors
    assert module._rope(SimpleNamespace(rope_parameters={"rope_type": "default"}), length) == "none"


@pytest.mark.parametrize(("length", "scaled"), [(32_768, "none"), (32_769, "by position")])
def test_the_context_switches_the_temperature_of_llama_4(length: int, scaled: str):
    def model(model_type: str) -> Any:
        return SimpleNamespace(
            hf_text_config=SimpleNamespace(model_type=model_type),
            max_model_len=length,
            try_get_generation_config=dict,
            override_generation_config={},
        )

    assert module._temperature(model("llama4_text")) == scaled
    assert module._temperature(model("llama")) == "none"


def test_layers_say_if_only_their_weights_are_quantised():
    class MarlinFP8ScaledMMLinearKernel: ...

    class CutlassFP8ScaledMMLinearKernel: ...

    class Fp8LinearMethod:
        def __init__(self, kernel: object) -> None:
            self.fp8_linear = kernel

    def chosen(kernel: object) -> list[str]:
        layer = SimpleNamespace(quant_method=Fp8LinearMethod(kernel))
        return sorted(_chosen(SimpleNamespace(modules=lambda: [layer]))[0])

    assert chosen(MarlinFP8ScaledMMLinearKernel()) == ["Fp8LinearMethod, 16-bit activations"]
    assert chosen(CutlassFP8ScaledMMLinearKernel()) == ["Fp8LinearMethod"]


@pytest.mark.parametrize(
    ("backends", "name", "in_16_bits"),
    [
        ("nvfp4:NvFp4MoeBackend", "MARLIN", True),
        ("nvfp4:NvFp4MoeBackend", "FLASHINFER_TRTLLM", False),
        ("mxfp4:Mxfp4MoeBackend", "TRITON", True),
        ("mxfp4:Mxfp4MoeBackend", "FLASHINFER_TRTLLM_MXFP4_BF16", True),
        ("mxfp4:Mxfp4MoeBackend", "FLASHINFER_TRTLLM_MXFP4_MXFP8", False),
        ("fp8:Fp8MoeBackend", "TRITON", False),
        ("fp8:Fp8MoeBackend", "MARLIN", True),
    ],
)
def test_experts_say_if_their_activations_stay_in_16_bits(
    backends: str, name: str, in_16_bits: bool
):
    module, _, kind = backends.partition(":")
    oracle = import_module(f"vllm.model_executor.layers.fused_moe.oracle.{module}")
    method = type(f"{module.capitalize()}MoEMethod", (), {})()
    method.backend = getattr(oracle, kind)[name]
    layer = SimpleNamespace(quant_method=method)

    (layers, kernels) = _chosen(SimpleNamespace(modules=lambda: [layer]))

    assert kernels == {name}
    assert [", 16-bit activations" in text for text in layers] == [in_16_bits]
