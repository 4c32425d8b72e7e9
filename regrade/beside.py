"""Work for a process beside this one: MLflow and matplotlib take seconds to import, which another core can spend."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import ParamSpec, TypeVar

from regrade.errors import OperationError
from regrade.tracking.connection import preload

_P = ParamSpec("_P")
_R = TypeVar("_R")
_pools: list[ProcessPoolExecutor] = []
"""The one in use, if any."""


class BesideError(OperationError):
    """The process beside this one was ended from outside."""

    def __str__(self) -> str:
        return "The process that writes to MLflow and draws was ended from outside, perhaps for lack of memory."


def prepare(log: Path | None = None) -> None:
    """Start the process, which begins with its imports. Where it has been started, nothing happens.

    Args:
        log: Takes what is printed there. None: our own stderr.
    """
    if not _pools:
        context = multiprocessing.get_context("spawn")
        started = ProcessPoolExecutor(
            1, mp_context=context, initializer=_begin, initargs=(os.getpid(), log)
        )
        _pools.append(started)
        started.submit(_import_all)


def call_beside(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function of a module in that process, one at a time, and return what it returns.

    Raises:
        BesideError: If the process was ended from outside.
        Exception: What the function raises.
    """
    prepare()
    try:
        return _pools[0].submit(function, *args, **kwargs).result()
    except BrokenProcessPool as error:
        _pools.clear()
        raise BesideError from error


def _import_all() -> None:
    preload()
    import matplotlib.figure  # noqa: F401


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
