"""A thread that repeats an action every few seconds, in the Prefect run context of its starter."""

import contextvars
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

logger = logging.getLogger(__name__)


class RepeatingThread:
    """Calls `action` every `seconds` seconds in a thread while the block runs; its errors are logged.

    The end of the block waits at most `patience` seconds for a running call. A call that takes longer (on a slow
    network) continues in its thread and ends with the process.
    """

    def __init__(
        self,
        seconds: float,
        action: Callable[[], None],
        name: str,
        *,
        patience: float = 0.0,
        first: float | None = None,
        last: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Prepare the thread, which starts with the block.

        Args:
            seconds: Pause between two calls, in seconds.
            action: Called repeatedly.
            name: Name of the thread.
            patience: Longest wait for a call at the end of the block, in seconds.
            first: Pause before the first call, in seconds. None: the same.
            last: Called once at the end, if the block ended without an error.
            failed: Called once at the end otherwise.
        """
        self._seconds, self._action = seconds, action
        self._patience, self._last, self._on_failure = patience, last, failed
        self._first = seconds if first is None else first
        self._stop = threading.Event()
        self._failed = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._loop,), name=name, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._failed = error is not None
        self._stop.set()
        waits = not self._failed or self._on_failure is not None
        self._thread.join(self._patience if waits else 0.0)

    def _loop(self) -> None:
        pause = self._first
        while not self._stop.wait(pause):
            self._call(self._action)
            pause = self._seconds
        end = self._on_failure if self._failed else self._last
        if end is not None:
            self._call(end)

    def _call(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:  # an error would silently end the thread
            logger.exception("%s failed", self._thread.name)
