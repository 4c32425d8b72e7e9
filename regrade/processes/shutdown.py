"""Shut down within seconds of SIGINT or SIGTERM, with one line and leaving no process behind.

Stored data survives SIGKILL, so the process need not wait for its threads. Prefect would wait: for a task that sleeps
until its next retry, and for events that a server does not accept.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE = 6.0
"""Longest time from SIGINT or SIGTERM to the end of the process, in seconds."""
KEPT = "Finished answers are kept: the same command continues from there, and `regrade publish` publishes them."
"""Sentence of messages about an interruption."""
INTERRUPTED = f"Interrupted. {KEPT}"
_ENDING = (signal.SIGINT, signal.SIGTERM)


class StoppedError(KeyboardInterrupt):
    """Raised in the main thread on SIGTERM."""


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code that shells use for the signal."""
    return 128 + (signal.SIGTERM if isinstance(error, StoppedError) else signal.SIGINT)


class _Received:
    """The signal that this process received to end."""

    def __init__(self) -> None:
        self.is_watched = False
        self.raises = False
        """SIGTERM raises, so that what was begun is cleaned up. Otherwise the process ends at once."""
        self.is_raised = False
        """The process is about to end: Slurm and CI send a signal more than once."""
        self.is_noted = threading.Event()
        self.number = 0

    def note(self, number: int) -> None:
        self.number = number
        self.is_noted.set()


_received = _Received()


def end_on_signals(*, soon: bool = True) -> None:
    """End this process on SIGTERM or SIGINT with one line: at once, or in `interruptible` by an exception.

    Args:
        soon: It ends soon even if threads still wait, or a library drops the exception.
    """
    for number in _ENDING:
        # A shell's command in the background ignores SIGINT, and goes on doing so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    sys.unraisablehook = _report_unraisable
    if soon:
        end_soon_after_signals()


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise `KeyboardInterrupt` and `StoppedError` within this context."""
    handled = signal.getsignal(signal.SIGINT)
    try:
        _received.raises = True
        if handled is _on_signal:  # asyncio looks for this handler
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    except KeyboardInterrupt:
        _received.is_raised = True
        raise
    finally:
        _received.raises = False
        if handled is _on_signal:
            signal.signal(signal.SIGINT, _on_signal)


def signal_received() -> int:
    """Return the signal that was received to end this process, or 0."""
    if _received.is_watched:
        _received.is_noted.wait(0.1)  # the thread that notes it may be a moment behind
    return _received.number


def end_soon_after_signals() -> None:
    """End this process soon after SIGTERM or SIGINT, even if threads still wait.

    Uses a wakeup descriptor instead of a signal handler, because Prefect replaces handlers while a flow runs.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_signal, args=(reader,), name="ending", daemon=True).start()
    _received.is_watched = True


def exit_now(code: int) -> NoReturn:
    """Exit immediately, skipping atexit handlers."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of signal handlers
    if _received.is_raised:
        return
    if not _received.raises:
        _end(number)
    _received.is_raised = True
    raise StoppedError


def _report_unraisable(problem: "sys.UnraisableHookArgs") -> None:
    """Report an exception that Python drops, as in `__del__`; an interruption ends the process soon all the same."""
    if not issubclass(problem.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(problem)


def _end(number: int) -> NoReturn:
    os.write(2, f"regrade: {INTERRUPTED}\n".encode())  # not `sys.stderr`, which may be at work
    os._exit(128 + number)


def _end_after_signal(reader: int) -> None:
    number = 0
    while number not in _ENDING:
        number = os.read(reader, 1)[0]
    _received.note(number)
    time.sleep(GRACE)
    _end(number)
