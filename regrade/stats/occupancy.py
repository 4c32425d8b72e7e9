"""Occupancy of an engine: the seconds of a session while it filled, was full, drained, and had nothing to do."""

import time
from itertools import pairwise

from pydantic import BaseModel, NonNegativeInt

from regrade.settings import Seconds


class Occupancy(BaseModel):
    """Seconds from the first request to the last answer."""

    filling: Seconds = 0.0
    """Until requests waited for the first time, because the engine had all that it can take."""
    full: Seconds = 0.0
    """From then until the last time that requests waited."""
    draining: Seconds = 0.0
    """After that, until the last answer."""
    idle: Seconds = 0.0
    """Without a request; in none of the others."""
    full_tokens: NonNegativeInt = 0
    """Tokens of prompts and answers that were computed while it was full, as far as they are known."""

    @property
    def full_rate(self) -> float | None:
        """Tokens per second while it was full; None if it never was, or they are not known."""
        return self.full_tokens / self.full if self.full_tokens and self.full else None

    def __add__(self, other: "Occupancy") -> "Occupancy":
        """Return the sums."""
        return Occupancy(**{name: value + getattr(other, name) for name, value in self})


class OccupancyClock:
    """Measures an `Occupancy`. An engine that was never full fills until most requests are in it, and drains from then on."""

    def __init__(self) -> None:
        self._begun: float | None = None
        self._requests = self._most = self._tokens = self._tokens_before = self._full_tokens = 0
        self._idle = 0.0
        self._now = self._filled = self._emptied = self._at_most = (0.0, 0.0)
        """Times, of the last step and others, each with the idle seconds before it."""
        self._is_filled = False

    def arrive(self, now: float | None = None) -> None:
        """Note that a request arrives, at a time of `time.monotonic`."""
        if self._begun is not None and self._requests:
            return
        now = time.monotonic() if now is None else now
        if self._begun is None:
            self._begun = now
            # One request at a time is never left in the engine after a step.
            self._most, self._at_most = 1, (now, 0.0)
        else:
            self._idle += now - self._now[0]
        self._requests, self._now = 1, (now, self._idle)

    def step(self, requests: int, *, full: bool, tokens: int = 0, now: float | None = None) -> None:
        """Note what is in the engine after a step, or whenever it changes.

        Args:
            requests: Requests in it.
            full: True if more requests wait than it can take.
            tokens: Tokens of prompts and answers since the step before.
            now: Time of `time.monotonic`.
        """
        if self._begun is None:
            return
        now = time.monotonic() if now is None else now
        if full and not self._is_filled:
            self._is_filled, self._filled = True, self._now
            self._tokens_before = self._tokens
        self._tokens += tokens
        self._requests, self._now = requests, (now, self._idle)
        if full:
            self._emptied, self._full_tokens = self._now, self._tokens - self._tokens_before
        if requests > self._most:
            self._most, self._at_most = requests, self._now

    def result(self) -> Occupancy | None:
        """Return the seconds so far; None before the first request."""
        if self._begun is None:
            return None
        ends = (self._filled, self._emptied) if self._is_filled else (self._at_most, self._at_most)
        places = [(self._begun, 0.0), *ends, self._now]
        busy = [
            max(0.0, later - earlier - (idle - idle_before))
            for (earlier, idle_before), (later, idle) in pairwise(places)
        ]
        return Occupancy(
            filling=busy[0],
            full=busy[1],
            draining=busy[2],
            idle=self._idle,
            full_tokens=self._full_tokens,
        )
