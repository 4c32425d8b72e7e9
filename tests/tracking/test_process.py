"""Tests of the tracking process: results, errors, and its end with its owner."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regrade.settings.errors import TrackingError
from regrade.tracking import process as tracking_process
from regrade.tracking.process import TrackingProcessError, call_in_process, end, prepare
from tests.processes.trees import living, wait_until


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new process for each test, without the imports, which these tests do not need."""
    monkeypatch.setattr(tracking_process, "_import_all", os.getpid)
    end()
    yield
    end()


def test_a_function_runs_in_another_process_and_returns_its_value():
    assert call_in_process(os.getpid) != os.getpid()
    assert call_in_process(os.path.join, "a", "b") == os.path.join("a", "b")  # noqa: PTH118


def refuse() -> None:
    raise TrackingError("sqlite:///x.db", "is full")


def test_our_errors_come_back_as_they_are():
    with pytest.raises(TrackingError, match="is full") as caught:
        call_in_process(refuse)
    assert caught.value.args == ("sqlite:///x.db", "is full")


def test_a_process_that_was_killed_is_an_error_and_the_next_call_has_a_new_one():
    with pytest.raises(TrackingProcessError, match="killed from outside"):
        call_in_process(os._exit, 9)
    assert call_in_process(os.getpid) != os.getpid()


def test_what_it_prints_goes_to_the_log(tmp_path: Path):
    log = tmp_path / "log"
    prepare(log)
    call_in_process(os.write, 1, b"printed on stdout\n")
    assert "printed on stdout" in log.read_text()


_CALLED = "process._import_all = os.getpid; pid = process.call_in_process(os.getpid)"
_IMPORTING = (
    "process._import_all = signal.pause; process.prepare(); pid = process._started[0].process.pid"
)


@pytest.mark.parametrize(
    ("begin", "end"),
    [(_CALLED, "os._exit(0)"), (_CALLED, "os.kill(os.getpid(), 9)"), (_IMPORTING, "os._exit(0)")],
)
def test_it_ends_with_its_owner_however_that_ends(begin: str, end: str):
    code = f"import os, signal; from regrade.tracking import process; {begin}; print(pid, flush=True); {end}"
    owner = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    pid = int(owner.stdout)
    wait_until(lambda: not living([pid]))


def test_starting_it_waits_for_nothing():
    began = time.monotonic()
    prepare()
    assert time.monotonic() - began < 1


def test_callers_in_several_threads_get_what_they_asked_for():
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda n: call_in_process(pow, n, 2), range(40))) == [
            n * n for n in range(40)
        ]
