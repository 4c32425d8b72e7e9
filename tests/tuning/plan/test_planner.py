"""Plans that cannot be made, and requests that make no sense."""

import json
import sys
from pathlib import Path

import pytest

from regrade.engines.vllm_process.planner import Machine
from regrade.jobs.job import make_job
from regrade.settings.errors import ModelError, NotInstalledError, SettingsError
from regrade.tuning.plan.planner import make_memory_plan, this_machine
from regrade.tuning.plan.request import PlanRequest

QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1024,
    "max_position_embeddings": 1024,
}
WITHOUT_VLLM = "sys.modules['vllm'] = None"
RUN = "runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=False)"


def engine_after(folder: Path, code: str) -> str:
    """Return a Python for `REGRADE_ENGINE_PYTHON` that runs this code before a worker."""
    python = folder / "python"
    code = f"import runpy, sys; sys.argv.pop(0); {code}; {RUN}"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "qwen"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3))
    return folder


def request(model: Path, **changes) -> PlanRequest:
    values = {"model": str(model), "answers": str(model.parent / "answers"), **changes}
    return make_job(PlanRequest, values)


def test_without_vllm_the_error_names_the_install_command(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_ENGINE_PYTHON", engine_after(tmp_path, WITHOUT_VLLM))
    with pytest.raises(NotInstalledError, match=r"vLLM .* not installed here.*make install"):
        make_memory_plan(request(model, gpu="h100"), log=tmp_path / "log")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpu": "h100", "gpu_memory": "80GiB"}, "not both"),
        ({"benchmarks": ("gsm8k",), "max_model_len": 10}, "leave out `max_model_len`"),
        ({"sources": ({"benchmark": "gsm8k", "path": "x"},)}, "a source is given for"),
        ({"gpus": 0}, "`gpus` should be 1 or more, not 0"),
        ({"engine": {"kind": "openai"}}, "engine"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(model: Path, changes, says: str):
    with pytest.raises(SettingsError, match=says):
        request(model, **changes)


def test_an_unknown_gpu_is_refused_before_anything_starts(model: Path, tmp_path: Path):
    with pytest.raises(SettingsError, match="Unknown GPU 'h1000'"):
        make_memory_plan(request(model, gpu="h1000"), log=tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_a_folder_without_configuration_is_refused(tmp_path: Path):
    with pytest.raises(ModelError, match=r"no 'config\.json'"):
        make_memory_plan(request(tmp_path, gpu="h100"), log=tmp_path / "log")


def test_a_machine_without_gpus_is_planned_for_its_cpu_only(model: Path):
    cpu = Machine(is_cpu=True, device="cpu", count=1, memory=None, version="0.32.0")

    assert this_machine(request(model), cpu).memory is None
    with pytest.raises(SettingsError, match="this machine has no GPU. Name the kind"):
        this_machine(request(model, gpus=2), cpu)


@pytest.mark.vllm
@pytest.mark.slow
def test_a_vllm_whose_names_have_moved_is_refused_with_the_version_to_install(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    moved = "import vllm.v1.core.kv_cache_utils as m; del m.get_kv_cache_capacity"
    monkeypatch.setenv("REGRADE_ENGINE_PYTHON", engine_after(tmp_path, moved))

    with pytest.raises(SettingsError, match=r"get_kv_cache_capacity.*Install vLLM >=0\.32"):
        make_memory_plan(request(model, gpu="h100"), log=tmp_path / "log")


@pytest.mark.vllm
@pytest.mark.slow
def test_a_model_that_this_vllm_cannot_build_is_refused_with_its_reason(
    model: Path, tmp_path: Path
):
    config = {**QWEN3, "architectures": ["NoSuchModel"], "model_type": "qwen3"}
    (model / "config.json").write_text(json.dumps(config))

    with pytest.raises(SettingsError, match=r"NoSuchModel.*[Pp]lan on a machine with"):
        make_memory_plan(request(model, gpu="h100"), log=tmp_path / "log")
