import faulthandler
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from regrade.engines.vllm_process.forked import CoreContext, ForkFailedError, in_fork


def test_a_result_comes_back_and_the_process_stays_as_it_is():
    changed: list[int] = []

    def compute() -> dict:
        changed.append(1)
        return {"pid": os.getpid(), "text": "x" * 200_000}

    result = in_fork(compute)

    assert result["pid"] != os.getpid()
    assert len(result["text"]) == 200_000  # more than a pipe holds
    assert changed == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("448 is not\n divisible by 3"), "448 is not divisible by 3"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_an_error_is_told_in_one_line_or_by_its_type(error: Exception, told: str):
    def fail() -> None:
        raise error

    with pytest.raises(ForkFailedError, match=rf"^{told}$"):
        in_fork(fail)


def test_a_crash_is_no_result():
    def crash() -> None:
        faulthandler.disable()  # pytest's would print the stack into the output of a passing run
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(ForkFailedError, match="the process crashed"):
        in_fork(crash)


def test_a_computation_without_end_is_killed():
    started = time.monotonic()

    with pytest.raises(ForkFailedError, match="no result within 0 s"):
        in_fork(lambda: time.sleep(60), seconds=0.3)

    assert time.monotonic() - started < 10


def test_a_core_has_the_environment_of_its_parent_and_is_no_fork_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """vLLM sets variables for its core once it knows the model, when the process that is forked has long been there."""
    context, told = CoreContext(), tmp_path / "told"
    context.Process(
        target=tell, name="first", kwargs={"folder": told}
    ).start()  # the fork server is there
    core = context.Process(target=tell, name="core", kwargs={"folder": told})
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.delenv("HOME")

    core.start()
    core.join(60)

    assert core.exitcode == 0
    assert told.with_name("told-core").read_text() == f"3 None {os.getpid()} False"


def tell(folder: Path) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    found = (
        os.environ.get("LOCAL_WORLD_SIZE"),
        os.environ.get("HOME"),
        parent.pid,
        os.getppid() == parent.pid,
    )
    name = multiprocessing.current_process().name
    folder.with_name(f"told-{name}").write_text(" ".join(map(str, found)))
