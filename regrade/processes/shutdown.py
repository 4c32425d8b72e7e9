"""Shut down within seconds of SIGINT or SIGTERM, leaving no process behind.

Stored data survives SIGKILL, so the process need not wait for its threads. Prefect would wait: for a task that sleeps
until its next retry, and for events that a server does not accept.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

GRACE = 6.0
"""Longest time from SIGINT or SIGTERM to the end of the process, in seconds."""
KEPT = "Finished answers are kept: the same command continues from there, and `regrade publish` publishes them."
"""Sentence of messages about an interruption."""


class StoppedError(KeyboardInterrupt):
    """Raised in the main thread on SIGTERM."""


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code that shells use for the signal."""
    return 128 + (signal.SIGTERM if isinstance(error, StoppedError) else signal.SIGINT)


def end_on_signals() -> None:
    """Make SIGTERM raise `StoppedError`, and end this process soon after SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, _stop)
    end_soon_after_signals()


def end_soon_after_signals() -> None:
    """End this process soon after SIGTERM or SIGINT, even if threads still wait.

    Uses a wakeup descriptor instead of a signal handler, because Prefect replaces handlers while a flow runs.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_signal, args=(reader,), name="ending", daemon=True).start()


def exit_now(code: int) -> NoReturn:
    """Exit immediately, skipping atexit handlers."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of signal handlers
    raise StoppedError


def _end_after_signal(reader: int) -> None:
    number = 0
    while number not in (signal.SIGINT, signal.SIGTERM):
        number = os.read(reader, 1)[0]
    time.sleep(GRACE)
    sys.stderr.write(f"regrade: Interrupted. {KEPT}\n")
    exit_now(128 + number)
