"""Ending a tree of processes, so that its GPU memory and shared memory go back."""

import contextlib
import os
import time
from collections.abc import Iterable
from typing import Literal

import psutil


def end_descendants(grace: float) -> None:
    """End all descendants of this process: SIGTERM, `grace` seconds to comply, then SIGKILL.

    Those that are started meanwhile are found as well. multiprocessing's resource trackers come last: they ignore
    SIGTERM, and unlink the shared memory of processes that were killed once all of these are gone.
    """
    deadline = time.monotonic() + grace
    known: set[psutil.Process] = set()
    while True:
        late = time.monotonic() >= deadline
        found = set(_living(psutil.Process().children(recursive=True)))
        _signal(found if late else found - known, "kill" if late else "terminate")
        known |= found
        if not _living(known):
            break
        time.sleep(0.02)
    _end_trackers(_living(known, trackers=True))


def end_session(session: int) -> None:
    """Kill every process of a session but its leader, for when the leader ended without having done so."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if pid != session and os.getsid(pid) == session:
                members.append(psutil.Process(pid))
    _signal(_living(members), "kill")
    _end_trackers(_living(members, trackers=True))


def _end_trackers(trackers: list[psutil.Process]) -> None:
    """Let resource trackers unlink what the others left, which takes them a moment, and kill those that hang."""
    _signal(psutil.wait_procs(trackers, timeout=1.0)[1], "kill")


def _living(processes: Iterable[psutil.Process], *, trackers: bool = False) -> list[psutil.Process]:
    """Return those that are neither gone nor zombies; resource trackers only where asked for."""
    living = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE and (trackers or not _is_tracker(process)):
                living.append(process)
    return living


def _is_tracker(process: psutil.Process) -> bool:
    return any("multiprocessing.resource_tracker" in part for part in process.cmdline())


def _signal(processes: Iterable[psutil.Process], method: Literal["terminate", "kill"]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate() if method == "terminate" else process.kill()
