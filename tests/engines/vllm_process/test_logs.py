from pathlib import Path

import pytest

from regrade.engines.vllm_process.logs import last_error, status_in_words


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


def test_the_cause_is_found_and_not_its_consequences(log: Path):
    log.write_text(
        "(EngineCore pid=7) INFO 11-21 all well\n"
        "(EngineCore pid=7) ERROR 11-21 [core.py:9] ValueError: head size 7 is not supported\n"
        "Exception: WorkerProc initialization failed due to an exception in a background process. "
        "See stack trace for root cause.\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )

    assert last_error(log) == "ValueError: head size 7 is not supported"


def test_a_process_of_vllm_that_a_signal_ended_is_the_cause(log: Path):
    log.write_text(
        "(Worker pid=8) ERROR 11-21 ValueError: of a request, which did not end the worker\n"
        "(EngineCore pid=7) ERROR 11-21 [multiproc_executor.py:316] Worker proc VllmWorker-1 died unexpectedly "
        "(exit code: -4), shutting down executor.\n"
        "(EngineCore pid=7) ERROR 11-21 [core.py:9] EngineCore encountered a fatal error.\n"
        "(EngineCore pid=7) RuntimeError: cancelled\n"
    )

    assert last_error(log).startswith(
        "vLLM's process VllmWorker-1 ended with signal SIGILL: this CPU"
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 9 bytes. Error code 12 (Cannot allocate memory)",
        "ValueError: To serve at least one request with the models's max seq len (40960), 4.38 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (1.0 GiB).",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    ],
)
def test_an_out_of_memory_error_comes_with_the_settings_to_change(log: Path, line: str):
    log.write_text(
        f"{line}\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    )

    error = last_error(log)

    assert error.startswith(line.removeprefix("torch.")[:40])
    for setting in ("gpu_memory_utilization", "max_model_len", "max_num_seqs"):
        assert setting in error


def test_errors_of_earlier_engines_in_the_log_are_ignored(log: Path):
    log.write_text("ValueError: of yesterday\n")
    start = log.stat().st_size
    with log.open("a") as file:
        file.write("all well today\n")

    assert last_error(log, start) == ""


def test_a_missing_log_has_no_error(log: Path):
    assert last_error(log) == ""


def test_sigkill_comes_with_the_settings_to_lower():
    for status in (-9, 137):
        description = status_in_words(status)
        assert "SIGKILL" in description
        for setting in ("max_num_seqs", "max_model_len"):
            assert setting in description
    assert "Try `engine.dtype=float32`" in status_in_words(-4)
    assert status_in_words(143) == "signal SIGTERM"
    assert status_in_words(1) == "status 1"
