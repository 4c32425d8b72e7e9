"""Progress display: none by default, a progress bar on the command line. Paths of log files."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING

from regrade.jobs.time_spent import RunClock
from regrade.text.text import part_of

if TYPE_CHECKING:  # commands that show tables only should not wait for them
    from pydantic import BaseModel

    from regrade.jobs.generate import Progress
    from regrade.results.results import Evaluation

# Log lines of progress, from time to time.

LINE_SECONDS = 15.0
"""Seconds between two log lines of progress, which replace the bar without a terminal."""


class Pace:
    """Time between two log lines of progress."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin to count."""
        self._last = monotonic()

    def is_due(self) -> bool:
        """Return True, and begin to count again, if the last line is `LINE_SECONDS` old."""
        due = monotonic() - self._last > LINE_SECONDS
        if due:
            self.start()
        return due


def log_scored(title: str, done: int, total: int) -> None:
    """Log the number of scored answers."""
    logging.getLogger("regrade.score").info("%s: %s scored", title, part_of(done, total, "answer"))


logger = logging.getLogger("regrade.generate")


class Display:
    """Shows the progress of a flow; here nothing of it."""

    begun: float | None = None
    """Time of `time.monotonic` at which the command was started; None for a flow without one."""

    def loading(self, what: str) -> None:
        """Called before an engine is loaded."""

    def step(self, step: str) -> None:
        """Called with each step of loading."""

    def loaded(self) -> None:
        """Called when the engine is ready."""

    def advance(self, title: str, progress: "Progress") -> None:
        """Called when answers were finished."""

    def scoring(self, title: str, done: int, total: int) -> None:
        """Called when answers were scored by a scorer that takes long."""

    def published(self, evaluation: "Evaluation") -> None:
        """Called when scores are published, before they are tracked, with the result so far."""

    def finished(self, evaluation: "Evaluation") -> None:
        """Keep the result, to print it even if a later step fails."""

    def judged(self, verdict: "BaseModel") -> None:
        """Called with the `GateReport` of a gate."""

    def came(self, model: str, error: str | None = None, *, ended: bool) -> None:
        """Called before and after a model that came is evaluated (`--follow`), with the reason if it failed."""


class NoDisplay(Display):
    """No display, for runs whose progress is in the log and on Prefect's page."""

    def __init__(self) -> None:
        self._pace = Pace()

    def loading(self, what: str) -> None:
        """Log that the engine is loading, which takes a minute or more."""
        logger.info("loading %s", what)

    def step(self, step: str) -> None:
        """Log the step: loading takes a minute or more."""
        logger.info("loading: %s", step)

    def scoring(self, title: str, done: int, total: int) -> None:
        """Log the progress from time to time."""
        if self._pace.is_due():
            log_scored(title, done, total)


_NOTHING = NoDisplay()
_display: ContextVar[Display] = ContextVar("display", default=_NOTHING)


def current_display() -> Display:
    """Return the display of the running flow."""
    return _display.get()


@contextmanager
def shown_on(display: Display) -> Iterator[None]:
    """Use a display for the flows that run inside the block."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


_clock: ContextVar[RunClock | None] = ContextVar("clock", default=None)


def current_clock() -> RunClock:
    """Return the clock of the running flow, or one that nobody reads."""
    return _clock.get() or RunClock()


@contextmanager
def timed(begun: float | None = None, *, advised: bool = True) -> Iterator[None]:
    """Count the seconds of the parts of a flow that runs inside the block, since `begun`, else since its command was started.

    What is counted inside counts for a block around it, too. See `TimeSpent.advised`.
    """
    since = current_display().begun if begun is None else begun
    token = _clock.set(RunClock(since, advised=advised, around=_clock.get()))
    try:
        yield
    finally:
        _clock.reset(token)
