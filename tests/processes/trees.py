"""Small trees of real processes, in place of an engine."""

import contextlib
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

GRANDCHILD = """
import signal, sys, time
if {stubborn}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("GRANDCHILD", flush=True)
time.sleep(600)
"""

WORKER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from regrade.processes.supervised import end_with_supervisor
if {notices}:
    end_with_supervisor(0.5)
if {stubborn}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
children = [subprocess.Popen([sys.executable, "-c", {grandchild!r}], stdout=subprocess.PIPE) for _ in range(2)]
for child in children:
    child.stdout.readline()
Path({pids!r}).write_text(" ".join(str(pid) for pid in [os.getpid(), *(c.pid for c in children)]))
{then}
"""


def worker(
    pids: Path, *, stubborn: bool = False, notices: bool = False, then: str = "time.sleep(600)"
) -> list[str]:
    """Return a command that starts two children, writes the three process ids to a file, and runs `then`."""
    grandchild = GRANDCHILD.format(stubborn=stubborn)
    code = WORKER.format(
        stubborn=stubborn, notices=notices, grandchild=grandchild, pids=str(pids), then=then
    )
    return [sys.executable, "-c", code]


def read_pids(path: Path) -> list[int]:
    """Wait for the process ids of a tree and return them."""
    wait_until(lambda: path.exists() and len(path.read_text().split()) == 3)
    return [int(pid) for pid in path.read_text().split()]


def living(pids: Sequence[int]) -> list[int]:
    """Return the ids of running processes."""
    running = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                running.append(pid)
    return running


def wait_until(
    met: Callable[[], Any],
    seconds: float = 30,
    problem: Callable[[], str] | str = "did not happen in time",
    pause: float = 0.02,
) -> Any:
    """Call `met` until it returns a true value, and return the value."""
    deadline = time.monotonic() + seconds
    while not (value := met()):
        assert time.monotonic() < deadline, problem if isinstance(problem, str) else problem()
        time.sleep(pause)
    return value


def owner(pids: Path, log: Path, then: str, *, stubborn: bool = False) -> list[str]:
    """Return a command that starts a tree through `EngineProcess` and then runs `then`."""
    command = worker(pids, stubborn=stubborn)
    code = f"""
        import os, signal, sys, threading, time
        from pathlib import Path
        from regrade.engines.vllm_process.process import EngineProcess
        engine = EngineProcess({command!r}, Path({str(log)!r}), grace=0.5)
        while not Path({str(pids)!r}).exists():
            time.sleep(0.02)
        print("READY", flush=True)
    """
    return [sys.executable, "-c", textwrap.dedent(code) + then]
