"""Where a person watches: nothing by default, a progress bar on the command line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from regrade.generation import Progress
from regrade.reporting.results import Evaluation

logger = logging.getLogger("regrade.generate")


class Display(Protocol):
    """What a flow tells of its progress beside its log."""

    def loading(self, what: str) -> None:
        """An engine is being loaded."""

    def loaded(self) -> None:
        """The engine is ready."""

    def advance(self, title: str, progress: Progress) -> None:
        """Some answers were finished."""

    def finished(self, evaluation: Evaluation) -> None:
        """The result is known; what fails from now on takes none of it away."""


class NoDisplay:
    """For runs that nobody watches on a terminal: the log and Prefect's page have it all."""

    def loading(self, what: str) -> None:
        """Say so in the log, since it takes a minute and more."""
        logger.info("loading %s", what)

    def loaded(self) -> None:
        """Show nothing."""

    def advance(self, title: str, progress: Progress) -> None:
        """Show nothing."""

    def finished(self, evaluation: Evaluation) -> None:
        """Show nothing."""


_NOTHING = NoDisplay()
_display: ContextVar[Display] = ContextVar("display", default=_NOTHING)


def current_display() -> Display:
    """Return where the flow that is running shows its progress."""
    return _display.get()


@contextmanager
def shown_on(display: Display) -> Iterator[None]:
    """Show the progress of flows that run inside the block on a display."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)
