"""MLflow in a process beside this one: importing it takes seconds, which another core can spend meanwhile."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from regrade.errors import TrackingError
from regrade.tracking.connection import preload, public_uri
from regrade.tracking.scoring import Scoring
from regrade.tracking.track import TrackedRuns, track

_pools: list[ProcessPoolExecutor] = []
"""The one in use, if any."""


def prepare(log: Path | None = None) -> None:
    """Start the process, which begins by importing MLflow. Where it has been started, nothing happens.

    Args:
        log: Takes what is printed there. None: our own stderr.
    """
    if not _pools:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(
            1, mp_context=context, initializer=_begin, initargs=(os.getpid(), log)
        )
        _pools.append(pool)
        pool.submit(preload)


def track_beside(
    uri: str, scorings: Sequence[Scoring], *, step: int | None, family: str, regrade_command: str
) -> TrackedRuns:
    """Do what `track` does, in that process.

    Raises:
        TrackingError: If MLflow cannot be reached or does not take what it is given, or the process ended.
    """
    prepare()
    try:
        return (
            _pools[0]
            .submit(track, uri, scorings, step=step, family=family, regrade_command=regrade_command)
            .result()
        )
    except BrokenProcessPool as error:
        _pools.clear()
        problem = (
            "the process that writes to it was ended from outside, perhaps for lack of memory."
        )
        raise TrackingError(public_uri(uri), problem) from error


def _begin(parent: int, log: Path | None) -> None:
    """Keep out of the owner's way: its stdout, its Ctrl-C, and its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if log is None:
        os.dup2(2, 1)
    else:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
