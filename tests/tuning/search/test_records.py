"""Measurements are kept with the answers, and used for the same model, hardware, vLLM and kind of workload only."""

import logging
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.publishing import keep_document
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import hardware
from regrade.engines.vllm_process.hardware import Hardware
from regrade.settings.errors import SettingsError
from regrade.tuning.search import records
from regrade.tuning.search.records import (
    TrialRecord,
    Tuning,
    TuningKey,
    Workload,
    kept,
    with_tuned,
    workload_of,
)
from tests.builders import specification

WORK = Workload(method="generate", prompt=8, answer=9, thinking="answers")
KEY = TuningKey(
    model=specification().model,
    hardware=Hardware(device="NVIDIA H100", count=2),
    vllm="0.32",
    workload=WORK,
)


def tuning(key: TuningKey = KEY, **settings: int) -> Tuning:
    trial = TrialRecord(start=0, settings={}, in_flight=8, rate=9.0, requests=32, seconds=1.0)
    return Tuning(
        key=key,
        benchmark="sums",
        measured_at=datetime(2026, 11, 23, tzinfo=UTC),
        regrade_version="0",
        settings=settings or {"max_num_seqs": 96},
        in_flight=96,
        rate=9.0,
        spread=0.01,
        starts=1,
        trials=(trial,),
    )


def keep(repository: LocalRepository, found: Tuning) -> None:
    keep_document(repository, found.key.path, found, "tuned")


def tuned(plan: Any, repository: LocalRepository, **by_hand: Any) -> VllmEngine:
    """The settings of an engine with those that were found."""
    engine = with_tuned(VllmEngine(tuned=True, **by_hand), plan, repository)
    assert isinstance(engine, VllmEngine)
    return engine


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A plan whose key is `KEY` on this machine."""
    monkeypatch.setattr(records, "hardware", lambda: KEY.hardware)
    monkeypatch.setattr(records, "vllm_version", lambda: KEY.vllm)
    monkeypatch.setattr(records, "workload_of", lambda _: WORK)
    return SimpleNamespace(specification=specification())


def test_a_measurement_is_replaced_by_the_next_of_its_key(repository: LocalRepository):
    assert kept(repository, KEY.model) == []
    keep(repository, tuning())
    keep(repository, tuning(max_num_seqs=128))
    (found,) = kept(repository, KEY.model)
    assert (found.key, found.settings) == (KEY, {"max_num_seqs": 128})


@pytest.mark.parametrize(
    "other",
    [
        {"hardware": Hardware(device="NVIDIA H100", count=4)},
        {"hardware": Hardware(device="NVIDIA A100", count=2)},
        {"vllm": "0.33"},
        {"engine": {"dtype": "float32"}},
        {"workload": WORK.model_copy(update={"prompt": 12})},
        {"model": specification(model="org/other").model},
    ],
)
def test_a_measurement_of_something_else_is_not_used(
    repository: LocalRepository, plan: Any, other: dict[str, Any]
):
    keep(repository, tuning(KEY.model_copy(update=other)))
    engine = VllmEngine(tuned=True)
    assert with_tuned(engine, plan, repository) is engine


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        ('"schema_version":1', '"schema_version":2'),
        ('"max_num_seqs":96', '"max_model_len":1'),
        ('"max_num_seqs":96', '"max_num_seqs":0'),
    ],
)
def test_a_measurement_of_a_newer_version_or_of_other_settings_is_left_out_by_name(
    repository: LocalRepository,
    plan: Any,
    caplog: pytest.LogCaptureFixture,
    known: str,
    unknown: str,
):
    keep(repository, tuning(max_num_seqs=96))
    other = KEY.model_copy(update={"vllm": "0.31"})
    newer = tuning(other).model_dump_json().replace(known, unknown)
    repository.commit({other.path: newer.encode()}, "by hand", parent=repository.head())

    assert tuned(plan, repository).max_num_seqs == 96
    (left_out,) = [text for text in caplog.messages if "are left out" in text]
    assert other.path in left_out


def test_the_log_says_which_measurement_is_used_and_what_was_set_by_hand_stays(
    repository: LocalRepository, plan: Any, caplog: pytest.LogCaptureFixture
):
    keep(repository, tuning(max_num_seqs=96, max_num_batched_tokens=16384))
    caplog.set_level(logging.INFO, logger="regrade.tune")
    engine = tuned(plan, repository, max_num_seqs=8, enforce_eager=True)
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (8, 16384)
    assert engine.enforce_eager
    assert "tuned: max_num_batched_tokens=16,384, as measured on 2026-11-23" in caplog.text
    assert "(org/tiny on NVIDIA H100 with 2 GPUs with vLLM 0.32: " in caplog.text


def test_a_miss_names_what_there_is(
    repository: LocalRepository, plan: Any, caplog: pytest.LogCaptureFixture
):
    keep(repository, tuning(KEY.model_copy(update={"vllm": "0.31"})))
    engine = VllmEngine(tuned=True)
    assert with_tuned(engine, plan, repository) is engine
    (record,) = caplog.records
    assert "not tuned" in record.getMessage()
    assert "It has: org/tiny on NVIDIA H100 with 2 GPUs with vLLM 0.31" in record.getMessage()


def test_a_split_set_by_hand_is_not_mixed_with_the_settings_of_another_split(
    repository: LocalRepository, plan: Any, caplog: pytest.LogCaptureFixture
):
    keep(repository, tuning(max_num_seqs=48, tensor_parallel_size=1, data_parallel_size=2))
    other = VllmEngine(tuned=True, tensor_parallel_size=2)
    assert with_tuned(other, plan, repository) is other
    assert "(tensor_parallel_size=2). It has: " in caplog.text
    same = tuned(plan, repository, data_parallel_size=2)
    assert (same.max_num_seqs, same.tensor_parallel_size, same.data_parallel_size) == (48, 1, 2)
    limited = KEY.model_copy(update={"limits": {"ttft_p99": 0.5}})
    keep(repository, tuning(limited, max_num_seqs=4, tensor_parallel_size=2))
    assert tuned(plan, repository, tensor_parallel_size=2).max_num_seqs == 4


def test_settings_without_a_split_are_those_of_one_gpu(
    repository: LocalRepository, plan: Any, caplog: pytest.LogCaptureFixture
):
    keep(repository, tuning(max_num_seqs=48))
    other = VllmEngine(tuned=True, data_parallel_size=2)
    assert with_tuned(other, plan, repository) is other
    assert "(data_parallel_size=2). It has: " in caplog.text


def test_a_measurement_with_limits_is_used_if_there_is_no_other_and_the_log_names_them(
    repository: LocalRepository, plan: Any, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, logger="regrade.tune")
    limited = KEY.model_copy(update={"limits": {"ttft_p99": 0.5, "tpot_p99": 0.02}})
    keep(repository, tuning(limited, max_num_seqs=4))
    assert tuned(plan, repository).max_num_seqs == 4
    assert "within the limits ttft_p99 0.5 s, tpot_p99 0.02 s" in caplog.text

    keep(repository, tuning(max_num_seqs=96))
    assert len(kept(repository, KEY.model)) == 2
    assert tuned(plan, repository).max_num_seqs == 96


def test_engines_that_are_not_to_be_tuned_look_nothing_up(repository: LocalRepository):
    engine = VllmEngine()
    assert with_tuned(engine, SimpleNamespace(), repository) is engine


def test_unknown_hardware_is_an_error_with_a_way_out(
    repository: LocalRepository, plan: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(records, "hardware", lambda: None)
    with pytest.raises(SettingsError, match="nvidia-smi"):
        with_tuned(VllmEngine(tuned=True), plan, repository)


def test_gpus_are_those_that_the_engine_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    command = tmp_path / "nvidia-smi"
    command.write_text(
        "#!/bin/sh\necho '0, GPU-aa, NVIDIA H100'\necho '1, GPU-bb, NVIDIA H100'\necho '2, GPU-cc, NVIDIA A100'\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(hardware, "runs_on_cpu", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert hardware.hardware() is None  # of two kinds
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,GPU-bb")
    assert hardware.hardware() == Hardware(device="NVIDIA H100", count=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert hardware.hardware() is None


def test_the_kind_of_a_workload_is_the_length_of_nearly_all_prompts():
    samples = list(range(100))
    benchmark = SimpleNamespace(prompt=lambda number: "x" * (2000 if number >= 95 else 100))
    plan: Any = SimpleNamespace(
        samples=samples, benchmark=benchmark, specification=specification(), reasons=False
    )
    found = workload_of(plan)
    assert (found.prompt, found.answer, found.method) == (7, 9, "generate")
    assert "prompts of up to 128 characters, answers of up to 512 tokens" in str(found)
