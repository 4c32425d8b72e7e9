import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from regrade.processes.lasting import lasting_process
from regrade.processes.limited import LimitedProcesses, Limits, Stopped
from regrade.processes.tree import is_running
from regrade.settings.errors import OperationError
from tests.processes.limited_functions import compute
from tests.processes.trees import wait_until

FUNCTION = "tests.processes.limited_functions:compute"
LIMITS = Limits(cpu_seconds=0.8, seconds=8.0, memory=200 << 20)


@pytest.fixture(scope="module")
def pool() -> Iterator[LimitedProcesses]:
    with LimitedProcesses(FUNCTION, LIMITS, processes=2) as pool:
        yield pool


def test_results_come_in_the_order_of_the_values(pool: LimitedProcesses) -> None:
    tasks = [{"do": "square", "of": number} for number in range(100)]

    assert list(pool.map(tasks)) == [number**2 for number in range(100)]


def test_a_child_has_the_priority_of_its_owners_session_and_not_its_ctrl_c(
    pool: LimitedProcesses,
) -> None:
    [found] = pool.map([{"do": "session"}])

    assert isinstance(found, list)
    session, group = found
    assert session == os.getsid(0)
    assert group != os.getpgid(0)


@pytest.mark.parametrize(
    ("do", "limit"),
    [
        ("spin", "cpu"),
        ("native", "cpu"),
        ("sleep", "time"),
        ("fill", "memory"),
        ("reserve", "memory"),
        ("crash", "crash"),
    ],
)
def test_a_value_beyond_a_limit_is_stopped_and_the_others_are_computed(
    pool: LimitedProcesses, do: str, limit: str
) -> None:
    tasks = [{"do": "square", "of": 2}, {"do": do}, {"do": "square", "of": 3}]

    assert list(pool.map(tasks)) == [4, Stopped(limit), 9]  # type: ignore[arg-type]


def test_the_time_of_a_value_does_not_count_for_the_next() -> None:
    limits = replace(LIMITS, seconds=3.0)
    with LimitedProcesses(FUNCTION, limits, processes=1) as single:
        pids = [single.compute({"do": "pid"})]
        deadline = time.monotonic() + 1.5 * limits.seconds
        while time.monotonic() < deadline:
            pids.append(single.compute({"do": "pid"}))
            time.sleep(0.05)

    assert len(set(pids)) == 1


def test_an_error_of_the_function_is_raised_with_its_place(pool: LimitedProcesses) -> None:
    with pytest.raises(
        OperationError, match=r"(?s)limited_functions:compute.*ValueError: no such sq"
    ):
        pool.compute({"do": "fail"})

    assert pool.compute({"do": "square", "of": 5}) == 25


def test_a_function_that_is_not_there_is_refused_at_the_start() -> None:
    with pytest.raises(OperationError, match="No module named 'absent'"):
        LimitedProcesses("absent:compute", LIMITS, processes=1)


def test_a_child_gets_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with LimitedProcesses(FUNCTION, LIMITS, processes=1) as pool:
        assert pool.compute({"do": "variable", "name": "HF_TOKEN"}) is None
        assert pool.compute({"do": "variable", "name": "PATH"}) == os.environ["PATH"]


def test_processes_work_from_any_thread(pool: LimitedProcesses) -> None:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(pool.compute({"do": "spin"})))

    thread.start()
    thread.join(20)

    assert results == [Stopped("cpu")]


def test_threads_that_ask_at_once_get_the_one_process_of_a_function() -> None:
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(lasting_process, compute, LIMITS) for _ in range(4)]

    [process] = {future.result() for future in found}
    assert process.compute({"do": "square", "of": 3}) == 9


def test_no_process_is_left_at_the_end(pool: LimitedProcesses) -> None:
    list(pool.map([{"do": "pid"}] * 50))  # what a test before killed is replaced
    before = set(psutil.Process().children(recursive=True))

    with LimitedProcesses(FUNCTION, LIMITS, processes=2) as ending:
        assert list(ending.map([{"do": "pid"}] * 50))
        started = set(psutil.Process().children(recursive=True)) - before
        threading.Thread(target=_ignoring, args=(ending,), daemon=True).start()
        time.sleep(0.1)

    assert len(started) >= 3
    wait_until(lambda: not any(map(is_running, started)))


def _ignoring(pool: LimitedProcesses) -> None:
    with pytest.raises(OperationError):
        pool.compute({"do": "sleep"})


def test_the_workers_of_a_killed_owner_end() -> None:
    code = f"""
from regrade.processes.limited import LimitedProcesses, Limits
with LimitedProcesses({FUNCTION!r}, Limits(cpu_seconds=1, seconds=600, memory=1 << 30), processes=1) as pool:
    print(pool.compute({{"do": "pid"}}), flush=True)
    pool.compute({{"do": "spin"}})
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    owner.stdout.readline()
    workers = set(psutil.Process(owner.pid).children(recursive=True))

    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()

    assert len(workers) == 2
    wait_until(lambda: not any(map(is_running, workers)))
