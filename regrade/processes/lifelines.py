"""Noticing that the process above is gone, however it went.

A lifeline is a pipe whose write end only the upper process holds: it reads as ended once that process is gone,
also by SIGKILL. `PR_SET_PDEATHSIG` (prctl(2), Linux only) says the same by a signal; it also fires when merely the
thread that started us ends, so the receiver has to look whether the process is really gone.
"""

import ctypes
import os
import signal
import sys
import threading

from regrade.processes.tree import end_descendants

CHANNEL_VARIABLE = "REGRADE_ENGINE_CHANNEL"
"""Environment variable with the descriptor of the socket to the owner of the engine."""
LIFELINE_VARIABLE = "REGRADE_ENGINE_LIFELINE"
"""Environment variable with the descriptor of the lifeline that the guard holds."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def signal_when_parent_ends(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent ends (Linux; nothing elsewhere)."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends (Linux; nothing elsewhere)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def take_descriptor(variable: str) -> int:
    """Return the descriptor that an environment variable names, and take both away from our children."""
    descriptor = int(os.environ.pop(variable))
    os.set_inheritable(descriptor, False)
    return descriptor


def end_with_guard(lifeline: int, grace: float) -> None:
    """From now on, end this process and its descendants when the guard is gone.

    A thread of its own waits, since the main thread may be inside native code for long.
    """

    def wait() -> None:
        while os.read(lifeline, 1):
            pass
        end_descendants(grace)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
