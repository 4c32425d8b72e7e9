from pathlib import Path

import pytest

from regrade.engines.vllm_process.logs import last_error, status_in_words


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


def test_the_cause_is_named_and_not_what_followed_from_it(log: Path):
    log.write_text(
        "(EngineCore pid=7) INFO 11-21 all well\n"
        "(EngineCore pid=7) ERROR 11-21 [core.py:9] ValueError: head size 7 is not supported\n"
        "Exception: WorkerProc initialization failed due to an exception in a background process. "
        "See stack trace for root cause.\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )

    assert last_error(log) == "ValueError: head size 7 is not supported"


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
def test_lack_of_memory_says_which_settings_help(log: Path, line: str):
    log.write_text(
        f"{line}\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    )

    told = last_error(log)

    assert told.startswith(line.removeprefix("torch.")[:40])
    for setting in ("gpu_memory_utilization", "max_model_len", "max_num_seqs"):
        assert setting in told


def test_an_earlier_engine_in_the_same_log_is_not_blamed(log: Path):
    log.write_text("ValueError: of yesterday\n")
    start = log.stat().st_size
    with log.open("a") as file:
        file.write("all well today\n")

    assert last_error(log, start) == ""


def test_no_log_tells_nothing(log: Path):
    assert last_error(log) == ""


def test_a_process_that_was_killed_is_told_with_the_settings_to_lower():
    for status in (-9, 137):
        told = status_in_words(status)
        assert "SIGKILL" in told
        for setting in ("max_num_seqs", "max_model_len"):
            assert setting in told
    assert status_in_words(143) == "signal SIGTERM"
    assert status_in_words(1) == "status 1"
