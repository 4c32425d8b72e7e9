"""The process beside ours: what it returns and raises, and that it goes when we go."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from regrade import beside
from regrade.beside import BesideError, call_beside, prepare
from regrade.errors import TrackingError
from tests.engines.trees import living, wait_until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the imports, which no test here needs; ended after each test."""
    monkeypatch.setattr(beside, "_import_all", os.getpid)
    yield
    while beside._pools:
        beside._pools.pop().shutdown()


def test_a_function_runs_in_another_process_and_returns_its_value():
    assert call_beside(os.getpid) != os.getpid()
    assert call_beside(os.path.join, "a", "b") == os.path.join("a", "b")  # noqa: PTH118


def refuse() -> None:
    raise TrackingError("sqlite:///x.db", "is full")


def test_our_errors_come_back_as_they_are():
    with pytest.raises(TrackingError, match="is full") as caught:
        call_beside(refuse)
    assert caught.value.args == ("sqlite:///x.db", "is full")


def test_a_process_that_was_killed_is_an_error_and_the_next_call_has_a_new_one():
    with pytest.raises(BesideError, match="ended from outside"):
        call_beside(os._exit, 9)
    assert call_beside(os.getpid) != os.getpid()


def test_what_it_prints_goes_to_the_log(tmp_path: Path):
    log = tmp_path / "log"
    prepare(log)
    call_beside(os.write, 1, b"said on stdout\n")
    assert "said on stdout" in log.read_text()


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_it_ends_with_its_owner_however_that_ends(end: str):
    code = (
        "import os\n"
        "from regrade.beside import call_beside\n"
        "if __name__ == '__main__':\n"
        f"    print(call_beside(os.getpid), flush=True)\n    {end}"
    )
    owner = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    pid = int(owner.stdout)
    wait_until(lambda: not living([pid]))


def test_starting_it_waits_for_nothing():
    began = time.monotonic()
    prepare()
    assert time.monotonic() - began < 1
    assert psutil.Process().children()
