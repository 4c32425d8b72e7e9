import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from regrade.engines.vllm_process.process import EngineProcess
from regrade.processes.slots import machine_folder
from regrade.processes.supervised import SupervisedProcess
from tests.processes.trees import living, owner, read_pids, wait_until, worker

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


def _start_owner(pids: Path, log: Path, then: str, *, stubborn: bool = False) -> subprocess.Popen:
    process = subprocess.Popen(
        owner(pids, log, then, stubborn=stubborn),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"READY\n"
    return process


def _finish(process: subprocess.Popen) -> int:
    assert process.stdout is not None
    process.stdout.close()
    return process.wait(timeout=30)


@pytest.mark.parametrize(
    ("grace", "stubborn", "least", "most"), [(20, False, 0, 15), (0.5, True, 0.5, 30)]
)
def test_ending_ends_all_processes_at_once_or_after_the_grace_those_that_ignore_sigterm(
    pids: Path, log: Path, grace: float, stubborn: bool, least: float, most: float
):
    engine = EngineProcess(worker(pids, stubborn=stubborn), log, grace=grace)
    tree = read_pids(pids)
    assert not engine.has_ended()

    started = time.monotonic()
    engine.end()

    assert engine.has_ended()
    assert living([engine.pid, *tree]) == []
    assert least <= time.monotonic() - started < most


@pytest.mark.parametrize("stubborn", [False, True])
def test_no_process_outlives_a_killed_owner(pids: Path, log: Path, stubborn: bool):
    process = _start_owner(pids, log, "time.sleep(600)", stubborn=stubborn)
    tree = read_pids(pids)
    supervisor = psutil.Process(tree[0]).ppid()

    process.send_signal(signal.SIGKILL)
    _finish(process)

    wait_until(lambda: living([supervisor, *tree]) == [])


@pytest.mark.parametrize(
    "then",
    [
        "sys.exit(0)",
        "raise KeyboardInterrupt",
        "os._exit(3)",
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)",
    ],
)
def test_no_process_outlives_an_owner_that_ends(pids: Path, log: Path, then: str):
    process = _start_owner(pids, log, then)
    tree = read_pids(pids)

    _finish(process)

    wait_until(lambda: living(tree) == [])


def test_no_process_outlives_an_owner_whose_fork_holds_the_lifeline(pids: Path, log: Path):
    then = """
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = _start_owner(pids, log, then)
    tree = read_pids(pids)

    started = time.monotonic()
    _finish(process)

    wait_until(lambda: living(tree) == [])
    assert time.monotonic() - started < 20, "the fork held the pipe open until 30 s"


def test_ending_is_quick_if_a_fork_of_the_owner_holds_the_lifeline(pids: Path, log: Path):
    then = f"""
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
started = time.monotonic()
engine.end()
Path({str(log)!r} + ".seconds").write_text(str(time.monotonic() - started))
os._exit(0)
"""
    process = _start_owner(pids, log, then)
    tree = read_pids(pids)

    _finish(process)

    assert living(tree) == []
    assert float(Path(f"{log}.seconds").read_text()) < 5


def test_a_command_needs_no_channel_and_its_standard_output_may_go_to_another_file(
    log: Path, tmp_path: Path
):
    code = "import os; os.write(2, b'a warning'); print('{}')"
    process = SupervisedProcess(
        [sys.executable, "-c", code],
        log,
        os.environ | {"PYTHONPATH": str(_ROOT)},
        grace=1,
        output=tmp_path / "output",
    )
    assert process.has_ended(20)

    assert process.end() == 0
    assert (log.read_text(), (tmp_path / "output").read_text()) == ("a warning", "{}\n")


def test_a_process_that_cannot_be_started_leaves_no_open_file(tmp_path: Path):
    opened = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        SupervisedProcess(["true"], tmp_path / "missing" / "log", {}, grace=1)
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_the_engine_outlives_the_thread_that_started_it(pids: Path, log: Path):
    engines: list[EngineProcess] = []
    thread = threading.Thread(target=lambda: engines.append(EngineProcess(worker(pids), log)))
    thread.start()
    thread.join()
    tree = read_pids(pids)

    time.sleep(0.5)

    assert living(tree) == tree
    engines[0].end()
    assert living(tree) == []


def test_when_the_worker_is_killed_its_children_end(pids: Path, log: Path):
    engine = EngineProcess(worker(pids), log, grace=1)
    tree = read_pids(pids)

    os.kill(tree[0], signal.SIGKILL)

    assert engine.channel.receive() is None, "the owner sees the channel end"
    wait_until(lambda: living(tree) == [])
    assert engine.end() == 128 + signal.SIGKILL


def test_when_the_supervisor_is_killed_the_worker_ends_its_tree(pids: Path, log: Path):
    engine = EngineProcess(worker(pids, notices=True), log)
    tree = read_pids(pids)

    os.kill(engine.pid, signal.SIGKILL)

    wait_until(lambda: living(tree) == [])
    assert engine.end() == -signal.SIGKILL


def test_the_owner_ends_the_processes_of_a_killed_supervisor(
    pids: Path, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    engine = EngineProcess(worker(pids), log)
    tree = read_pids(pids)

    os.kill(engine.pid, signal.SIGKILL)
    wait_until(lambda: living([engine.pid]) == [])
    assert living(tree) == tree
    engine.end()

    wait_until(lambda: living(tree) == [])
    caches = machine_folder("torchinductor").parent
    assert list((tmp_path / "temporary").iterdir()) == [caches]


def test_orphans_are_ended(pids: Path, log: Path):
    then = "os._exit(0)"  # leaves two children behind
    engine = EngineProcess(worker(pids, then=then), log)
    tree = read_pids(pids)

    wait_until(lambda: living(tree) == [])

    assert engine.end() == 0


def test_the_status_is_that_of_the_command_all_its_output_is_in_the_log_and_its_scratch_folder_is_gone(
    log: Path, capfd: pytest.CaptureFixture[str]
):
    code = "import os, tempfile; print(tempfile.mkdtemp(), flush=True); os.write(2, b'stderr'); raise SystemExit(7)"
    engine = EngineProcess([sys.executable, "-c", code], log)

    assert engine.channel.receive() is None
    assert engine.end() == 7

    place, printed = log.read_text().split()
    assert ("regrade-engine-" in place, printed) == (True, "stderr")
    assert not Path(place).parent.exists()
    assert capfd.readouterr() == ("", "")


def test_shared_memory_of_killed_processes_is_freed(pids: Path, log: Path, tmp_path: Path):
    name = tmp_path / "name"
    then = f"""
from multiprocessing.shared_memory import SharedMemory
block = SharedMemory(create=True, size=1000)
Path({str(name)!r}).write_text(block.name)
time.sleep(600)
"""
    engine = EngineProcess(worker(pids, stubborn=True, then=then), log, grace=0.3)
    wait_until(lambda: name.exists() and bool(name.read_text()))
    block = Path("/dev/shm") / name.read_text()
    assert block.exists()

    engine.end()

    assert not block.exists()
