"""Child processes that compute a function within limits, started once and kept as long as this process lives."""

import atexit
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

from regrade.processes.limited import LimitedProcesses, Limits

_starting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Held while the process of a function starts, so that two threads start one; those of other functions start meanwhile."""


def lasting_process(function: Callable[[Any], Any], limits: Limits) -> LimitedProcesses:
    """Return the process that computes a function; it is started by the first call, and ends with this process.

    Args:
        function: A function of a module, from a JSON value to a JSON value.
        limits: Limits of each value.

    Raises:
        OperationError: If the function cannot be imported.
    """
    name = f"{function.__module__}:{function.__name__}"
    with _starting[name]:
        return _process(name, limits)


@cache
def _process(function: str, limits: Limits) -> LimitedProcesses:
    process = LimitedProcesses(function, limits, processes=1)
    atexit.register(process.__exit__)
    return process
