"""How a command ends that is interrupted or killed: soon, and with no process left behind.

Everything is made to survive SIGKILL, so nothing has to be waited for. Prefect would wait: for a task that
sleeps until its next try, for events that a server does not take.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

GRACE = 6.0
"""Seconds from SIGINT or SIGTERM to the end of the process, whatever hangs."""
KEPT = "Answers so far are kept: the same command goes on from there, and `regrade publish` publishes them."


class StoppedError(KeyboardInterrupt):
    """SIGTERM, raised where the main thread is."""


def exit_code(error: KeyboardInterrupt) -> int:
    """Return what a shell shows for the signal."""
    return 128 + (signal.SIGTERM if isinstance(error, StoppedError) else signal.SIGINT)


def end_on_signals() -> None:
    """Make SIGTERM raise `StoppedError`, and end this process soon after SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, _stop)
    end_soon_after_signals()


def end_soon_after_signals() -> None:
    """End this process soon after SIGTERM or SIGINT, whatever its threads still wait for.

    Not by a handler: Prefect has its own while a flow runs.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_signal, args=(reader,), name="ending", daemon=True).start()


def leave(code: int) -> NoReturn:
    """End this process now, without what libraries do at its exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of handlers
    raise StoppedError


def _end_after_signal(reader: int) -> None:
    number = 0
    while number not in (signal.SIGINT, signal.SIGTERM):
        number = os.read(reader, 1)[0]
    time.sleep(GRACE)
    sys.stderr.write(f"regrade: Interrupted. {KEPT}\n")
    leave(128 + number)
