"""The configuration of vLLM: everything that is not set is as in vLLM's own `LLM`."""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.arguments import (
    engine_arguments,
    engine_config,
    model_config,
    share_short_contexts,
)
from regrade.engines.vllm_process.extra import parse_extra
from regrade.settings.errors import SettingsError

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # while vLLM imports torch
]

GIB = 1 << 30
H100 = {"memory": 80 * GIB, "name": "NVIDIA H100 80GB HBM3"}
H200 = {"memory": 141 * GIB, "name": "NVIDIA H200"}
A100 = {"memory": 80 * GIB, "name": "NVIDIA A100-SXM4-80GB"}
CONTEXT = 4096


def arguments_of(model: Path, *, is_cpu: bool = True, **settings: Any) -> Any:
    return engine_arguments(open_message(model, VllmEngine(**settings)), is_cpu=is_cpu)


def open_message(model: Path, settings: VllmEngine) -> dict[str, Any]:
    return {
        "model": str(model),
        "revision": None,
        "adapter": None,
        "settings": settings.arguments,
        "extra": parse_extra(settings.extra),
        "longest": [{"sampling": {"temperature": 0.0}}],
    }


@pytest.fixture
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM chooses the sizes of batches as on this GPU; on the CPU if there is no parameter."""
    from vllm.engine import arg_utils

    if request.param is None:
        return
    choose = arg_utils.EngineArgs.get_batch_defaults.__func__
    platform = SimpleNamespace(
        get_device_total_memory=lambda: request.param["memory"],
        get_device_name=lambda: request.param["name"],
        is_tpu=lambda: False,
        is_cpu=lambda: False,
    )

    def choose_for_gpu(cls, world_size: int):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arg_utils, "current_platform", platform)
            return choose(cls, world_size)

    monkeypatch.setattr(arg_utils.EngineArgs, "get_batch_defaults", classmethod(choose_for_gpu))


def offline(monkeypatch: pytest.MonkeyPatch, model: Path, **arguments: object) -> Any:
    """Configuration with which `LLM(model, **arguments)` starts its engine."""
    from vllm import LLM
    from vllm.v1.engine.llm_engine import LLMEngine

    class ConfiguredError(Exception):
        pass

    def from_engine_args(engine_args, usage_context):
        raise ConfiguredError(engine_args.create_engine_config(usage_context))

    monkeypatch.setattr(LLMEngine, "from_engine_args", staticmethod(from_engine_args))
    with pytest.raises(ConfiguredError) as caught:
        LLM(str(model), **arguments)
    return caught.value.args[0]


def differences(ours: object, theirs: object, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Fields with different values, also of the configurations inside."""
    if dataclasses.is_dataclass(ours) and type(ours) is type(theirs):
        for name in {**vars(ours), **vars(theirs)}:
            mine, other = getattr(ours, name, None), getattr(theirs, name, None)
            yield from differences(mine, other, f"{path}.{name}" if path else name)
    elif ours != theirs:
        yield path, ours, theirs


@pytest.mark.parametrize(
    ("gpu", "sequences", "tokens"),
    [(None, 256, 4096), (H100, 1024, 16384), (H200, 1024, 16384), (A100, 256, 8192)],
    ids=["cpu", "H100", "H200", "A100"],
    indirect=["gpu"],
)
@pytest.mark.parametrize(
    "settings",
    [{}, {"enforce_eager": True, "gpu_memory_utilization": 0.5, "enable_prefix_caching": False}],
    ids=["defaults", "settings"],
)
@pytest.mark.usefixtures("gpu")
def test_the_configuration_is_that_of_vllms_own_llm(
    demo_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    sequences: int,
    tokens: int,
):
    config = engine_config(arguments_of(demo_model, is_cpu=False, **settings), CONTEXT)

    theirs = offline(monkeypatch, demo_model, max_model_len=CONTEXT, **settings)

    assert [name for name, *_ in differences(config, theirs)] == ["instance_id"]
    assert config.scheduler_config.max_num_seqs == sequences
    assert config.scheduler_config.max_num_batched_tokens == tokens


def test_on_a_cpu_only_these_arguments_differ_from_vllms_defaults(
    demo_model: Path, monkeypatch: pytest.MonkeyPatch
):
    arguments = arguments_of(demo_model)
    config = engine_config(arguments, CONTEXT)

    theirs = offline(
        monkeypatch,
        demo_model,
        max_model_len=CONTEXT,
        dtype="float32",
        kv_cache_memory_bytes=arguments.kv_cache_memory_bytes,
    )

    assert [name for name, *_ in differences(config, theirs)] == ["instance_id"]
    assert arguments.kv_cache_memory_bytes >= GIB


@pytest.mark.parametrize(("extra", "block"), [((), 32), (("block_size=64",), 64)])
def test_on_a_cpu_passes_over_a_short_context_share_it_unless_the_block_is_set(
    demo_model: Path, extra: tuple[str, ...], block: int
):
    arguments = arguments_of(demo_model, extra=extra)

    share_short_contexts(arguments, model_config(arguments))

    assert engine_config(arguments, CONTEXT).cache_config.block_size == block


@pytest.mark.parametrize("kind", ["use_mla", "is_hybrid"])
def test_attention_with_a_block_of_its_own_keeps_it(demo_model: Path, kind: str):
    arguments = arguments_of(demo_model)
    model: Any = SimpleNamespace(**{"use_mla": False, "is_hybrid": False, kind: True})

    share_short_contexts(arguments, model)

    assert arguments.block_size is None


def test_copies_of_the_model_have_the_configuration_of_one(demo_model: Path):
    alone, copies = (
        engine_config(arguments_of(demo_model, data_parallel_size=number), CONTEXT)
        for number in (1, 2)
    )

    for part in ("scheduler_config", "compilation_config"):
        assert [*differences(getattr(alone, part), getattr(copies, part))] == []


def test_splits_and_copies_of_a_model_multiply(demo_model: Path):
    split = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3, "data_parallel_size": 2}
    config = engine_config(arguments_of(demo_model, is_cpu=False, **split), CONTEXT).parallel_config

    assert {name: getattr(config, name) for name in split} == split
    assert (config.world_size, config.world_size_across_dp) == (6, 12)


def test_the_arguments_stay_as_they_are(demo_model: Path):
    """vLLM fills in defaults in place; the second configuration must not begin with those of the first."""
    arguments = arguments_of(demo_model)
    before = dict(vars(arguments))

    model_config(arguments)
    engine_config(arguments, CONTEXT)

    assert vars(arguments) == before


def test_a_value_that_vllm_rejects_is_an_error_in_one_line(demo_model: Path):
    arguments = arguments_of(demo_model, quantization="no such method")

    with pytest.raises(SettingsError, match="vLLM rejects the engine settings") as caught:
        model_config(arguments)

    assert "\n" not in str(caught.value)


def test_a_model_with_longrope_allows_its_derived_maximum(demo_model: Path, tmp_path: Path):
    """vLLM's default is the original length, up to which it uses the short factors."""
    known = json.loads((demo_model / "config.json").read_text())
    half = known["hidden_size"] // known["num_attention_heads"] // 2
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * half,
        "long_factor": [2.0] * half,
        "original_max_position_embeddings": 256,
    }
    changes = {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 256,
        "rope_parameters": rope,
        "rope_scaling": {"type": "longrope", **rope},
        "pad_token_id": 0,
    }
    folder = tmp_path / "phi"
    shutil.copytree(demo_model, folder)
    (folder / "config.json").write_text(json.dumps({**known, **changes}))
    arguments = arguments_of(folder)

    assert model_config(arguments).max_model_len == 4096
