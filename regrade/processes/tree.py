"""End process trees, so that their GPU memory and shared memory are freed."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from signal import SIGKILL, SIGTERM, Signals

import psutil


def end_descendants(grace: float) -> None:
    """End all descendants of this process: SIGTERM, `grace` seconds of waiting, then SIGKILL.

    Descendants that start in the meantime are included. multiprocessing's resource trackers come last: they ignore
    SIGTERM, and unlink the shared memory of killed processes after all of these have ended.
    """
    deadline = time.monotonic() + grace
    known: set[psutil.Process] = set()
    while True:
        expired = time.monotonic() >= deadline
        running = set(_running(psutil.Process().children(recursive=True)))
        _send(running if expired else running - known, SIGKILL if expired else SIGTERM)
        known |= running
        if not _running(known):
            break
        time.sleep(0.02)
    _end_trackers(_running(known, trackers=True))


def end_session(session: int) -> None:
    """Kill every process of a session except its leader, in case the leader was killed before it could do so."""
    members = []
    for pid in psutil.pids():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if pid != session and os.getsid(pid) == session:
                members.append(psutil.Process(pid))
    _send(_running(members), SIGKILL)
    _end_trackers(_running(members, trackers=True))


def end_tree(root: psutil.Process, first: Signals, grace: float) -> None:
    """End a process and its descendants: send `first` to the process, wait for its end, send SIGKILL to all others.

    After `grace` seconds the process is killed too. Descendants that start in the meantime are included.
    """
    deadline = time.monotonic() + grace
    tree = {root, *_descendants(root)}
    _send([root], first)
    while is_running(root) and time.monotonic() < deadline:
        tree.update(_descendants(root))
        time.sleep(0.1)
    _send(tree, SIGKILL)
    deadline = time.monotonic() + 10
    while _running(tree, trackers=True) and time.monotonic() < deadline:
        time.sleep(0.02)


def is_running(process: psutil.Process) -> bool:
    """Return True if the process runs; False for a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _end_trackers(trackers: list[psutil.Process]) -> None:
    """Give resource trackers a second to unlink shared memory, then kill those that still run."""
    _send(psutil.wait_procs(trackers, timeout=1.0)[1], SIGKILL)


def _running(
    processes: Iterable[psutil.Process], *, trackers: bool = False
) -> list[psutil.Process]:
    """Return the running processes; resource trackers only if `trackers` is set."""
    running = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if is_running(process) and (trackers or not _is_tracker(process)):
                running.append(process)
    return running


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def _is_tracker(process: psutil.Process) -> bool:
    return any("multiprocessing.resource_tracker" in part for part in process.cmdline())


def _send(processes: Iterable[psutil.Process], number: Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # also raised if another process has the id now
            process.send_signal(number)
