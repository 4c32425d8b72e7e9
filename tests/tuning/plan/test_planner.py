"""Plans without vLLM, and requests that make no sense."""

import json
from pathlib import Path

import pytest

from regrade.jobs.job import make_job
from regrade.settings.errors import ModelError, SettingsError
from regrade.stats.speed import GIB
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from tests.tuning.plan.engine_without_vllm import engine_after, engine_without_vllm
from tests.tuning.plan.test_estimate import QWEN3_8B


@pytest.fixture
def without_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGRADE_ENGINE_PYTHON", engine_without_vllm(tmp_path))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "qwen"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    return folder


def request(model: Path, **changes) -> PlanRequest:
    values = {"model": str(model), "answers": str(model.parent / "answers"), **changes}
    return make_job(PlanRequest, values)


def test_without_vllm_a_plan_is_an_estimate_and_says_so(without_vllm, model: Path, tmp_path: Path):
    asked = request(model, gpu="h100", gpus=8, max_model_len=4096)

    plan = make_memory_plan(asked, log=tmp_path / "log")

    assert (plan.method, plan.vllm) == ("estimate", None)
    assert plan.parameters == pytest.approx(8_190_735_360, rel=0.001)
    assert "cannot tell: vLLM is not installed" in plan.notes[0]
    by_name = {split.name: split for split in plan.splits}
    assert len(by_name) == 10
    alone = by_name["TP 1 x PP 1 x DP 8"]
    usable, margin = int(81559 * 1024**2 * 0.92), int(81559 * 1024**2 * 0.1)
    assert plan.target.usable == usable
    assert alone.kv_cache == (usable - margin - alone.weights[0],)
    assert alone.tokens == alone.kv_cache[0] // (36 * 2 * 8 * 128 * 2)
    assert plan.choice is not None
    assert (plan.choice.tensor, plan.choice.data) == (2, 4)


def test_without_vllm_what_does_not_fit_says_by_how_much(without_vllm, model: Path, tmp_path: Path):
    asked = request(model, gpu_memory="16GiB", max_model_len=1024)

    plan = make_memory_plan(asked, log=tmp_path / "log")

    (split,) = plan.splits
    assert plan.choice is None
    needed = split.weights[0] + plan.margin.bytes + 1024 * 36 * 2 * 8 * 128 * 2
    assert split.lacking == needed - int(16 * GIB * 0.92)
    assert "TP 1 x PP 1 x DP 1 lacks least" in plan.advice
    assert "The weights need at least 2 such GPUs for a copy." in plan.advice


def test_without_vllm_this_machine_and_a_benchmarks_length_are_not_known(
    without_vllm, model: Path, demo_model: Path, tmp_path: Path
):
    with pytest.raises(SettingsError, match="GPUs of this machine are not known. Name them"):
        make_memory_plan(request(model), log=tmp_path / "log")

    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"question": "1 + 1?", "answer": "#### 2"}) + "\n")
    asked = request(
        demo_model,
        gpu="h100",
        benchmarks=("gsm8k",),
        sources=({"benchmark": "gsm8k", "path": str(questions)},),
        prompt={"n_shots": 0},
    )
    with pytest.raises(SettingsError, match="give `--max-model-len` instead"):
        make_memory_plan(asked, log=tmp_path / "log")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpu": "h100", "gpu_memory": "80GiB"}, "not both"),
        ({"benchmarks": ("gsm8k",), "max_model_len": 10}, "leave out max_model_len"),
        ({"sources": ({"benchmark": "gsm8k", "path": "x"},)}, "a source is given for"),
        ({"gpus": 0}, "gpus should be 1 or more, not 0"),
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


def test_parallel_sizes_that_no_split_has_are_refused(without_vllm, model: Path, tmp_path: Path):
    asked = request(model, gpu="h100", gpus=8, engine={"kind": "vllm", "tensor_parallel_size": 3})

    with pytest.raises(SettingsError, match="No split of 8 GPUs has the parallel sizes"):
        make_memory_plan(asked, log=tmp_path / "log")


def test_parallel_sizes_that_are_set_are_kept(without_vllm, model: Path, tmp_path: Path):
    asked = request(model, gpu="h100", gpus=8, engine={"kind": "vllm", "tensor_parallel_size": 2})

    plan = make_memory_plan(asked, log=tmp_path / "log")

    assert {split.tensor for split in plan.splits} == {2}
    assert len(plan.splits) == 3


@pytest.mark.vllm
@pytest.mark.slow
def test_where_names_of_vllm_have_moved_a_plan_is_an_estimate_for_the_benchmarks_length(
    demo_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    moved = "import vllm.v1.core.kv_cache_utils as m; del m.get_kv_cache_capacity"
    monkeypatch.setenv("REGRADE_ENGINE_PYTHON", engine_after(tmp_path, moved))
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"question": "1 + 1?", "answer": "#### 2"}) + "\n")
    asked = request(
        demo_model,
        gpu="h100",
        answers=str(tmp_path / "answers"),
        benchmarks=("gsm8k",),
        sources=({"benchmark": "gsm8k", "path": str(questions)},),
        prompt={"n_shots": 0},
        sampling={"max_tokens": 700},
    )

    plan = make_memory_plan(asked, log=tmp_path / "log")

    assert plan.method == "estimate"
    assert "get_kv_cache_capacity" in plan.notes[0]
    assert plan.vllm is not None
    assert plan.max_model_len == 768
    assert "700 of answer" in plan.length_source
    (split,) = plan.splits
    assert split.tokens is not None
    assert split.fits
