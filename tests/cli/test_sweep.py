"""`regrade sweep` with real vLLM on real questions: tables and plots out of one command."""

from pathlib import Path

import pytest

from regrade.tuning.sweep.results import Measured, SweepResult
from regrade.tuning.sweep.text import notes, result_rows
from tests.benchmarks.files import shared
from tests.command_line import regrade

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(900)]
QUESTIONS = 24
IN_FLIGHT = (1, 4, 16)


def swept(model: Path, server: str, folder: Path, *options: str) -> SweepResult:
    done = regrade(
        *("sweep", "--model", model, "--answers", folder / "answers", "--json"),
        *("--limit", str(QUESTIONS), "--max-tokens", "32", "--engine.enforce-eager"),
        *("--engine.extra", "kv_cache_memory_bytes=268435456", *options),
        process=True,
        timeout=850,
        PREFECT_API_URL=server,
        REGRADE_SPOOL=str(folder / "spool"),
    )
    assert done.code == 0, done.err
    return SweepResult.model_validate(
        {k: v for k, v in done.document.items() if k in SweepResult.model_fields}
    )


def assert_measured(measured: Measured) -> None:
    assert (measured.rows, measured.failed, measured.measured_by) == (QUESTIONS, 0, "engine")
    assert measured.accuracy is not None
    assert measured.seconds_per_answer is not None
    assert 0 < measured.seconds_per_answer <= measured.seconds
    assert measured.speed is not None
    for latency in (measured.speed.ttft, measured.speed.e2el, measured.speed.queue):
        assert latency is not None
        assert latency.p25 <= latency.p50 <= latency.p75 <= latency.p99


def test_one_command_measures_1_4_and_16_requests_in_flight_on_mmlu_and_gsm8k(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    sources = [f"{name}={shared(name)}" for name in ("mmlu", "gsm8k")]

    found = swept(
        demo_model,
        prefect_server,
        tmp_path,
        *("--in-flight", ",".join(map(str, IN_FLIGHT))),
        *("--benchmark", "mmlu", "--benchmark", "gsm8k"),
        *("--source", sources[0], "--source", sources[1]),
    )

    assert found.engine_starts == 1
    assert [point.in_flight for point in found.points] == list(IN_FLIGHT)
    for point in found.points:
        assert point.failure is None
        assert [measured.benchmark for measured in point.benchmarks] == ["mmlu", "gsm8k"]
        for measured in point.benchmarks:
            assert_measured(measured)
            assert measured.speed is not None
            assert measured.speed.running_max <= (point.in_flight or 0)
            assert measured.speed_up is not None
            assert (measured.test is None) == (point.number == 0)
            assert measured.test is None or measured.test.n == QUESTIONS
    folder = Path(str(found.folder))
    assert {path.name for path in folder.glob("*.png")} >= {
        f"{name}-{plot}.png"
        for name, plot in [
            ("mmlu", "throughput"),
            ("gsm8k", "throughput"),
            ("gsm8k", "per-gpu-over-per-user"),
            ("mmlu", "accuracy-over-cost"),
            ("gsm8k", "accuracy-over-cost"),
        ]
    }


def test_splits_that_cannot_run_here_are_rows_with_their_reason(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    found = swept(
        demo_model,
        prefect_server,
        tmp_path,
        *("--benchmark", "gsm8k", "--source", f"gsm8k={shared('gsm8k')}", "--n-shots", "2"),
        *("--engine.tensor-parallel-size", "1,2", "--engine.pipeline-parallel-size", "1,2"),
    )

    assert [(p.settings["engine.tensor_parallel_size"], p.gpus) for p in found.points] == [
        ("1", 1),
        ("1", 2),
        ("2", 2),
        ("2", 4),
    ]
    for point, row in zip(found.points, result_rows(found, "gsm8k"), strict=True):
        if point.settings["engine.pipeline_parallel_size"] == "1":
            assert point.failure is None
            assert_measured(point.benchmarks[0])
        else:
            assert point.failure is not None
            assert "vLLM cannot run a pipeline on a CPU" in point.failure
            assert "failed" in row
            assert f"{point.name}: {point.failure}" in notes(found, "gsm8k")
