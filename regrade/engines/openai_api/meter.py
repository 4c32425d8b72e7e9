"""Measure a server from the client's side: whole answers, and the chunks in which they arrive."""

import time
from itertools import pairwise

from regrade.engines.openai_api.bodies import ChunkTimes
from regrade.stats.occupancy import Occupancy, OccupancyClock
from regrade.stats.speed import LATENCIES, Durations, OtherSide, Speed


class ClientMeter:
    """Measures the answers of one call of `generate`, except rankings of labels, which are single steps."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._spreads = {name: Durations() for name in LATENCIES}
        self._requests = self._in_flight = self._most_in_flight = 0
        self._seconds_in_flight = 0.0
        self._occupancy = OccupancyClock()

    def begin(self, requests: int, *, full: bool) -> None:
        """Count requests that are sent; `full` if no further ones may be in flight."""
        self._in_flight += requests
        self._most_in_flight = max(self._most_in_flight, self._in_flight)
        self._occupancy.arrive()
        self._occupancy.step(self._in_flight, full=full)

    def end(self, requests: int, seconds: float, tokens: int) -> None:
        """Count the end of requests that were in flight for this long, and the tokens of their prompts and answers."""
        self._in_flight -= requests
        self._seconds_in_flight += requests * seconds
        self._occupancy.step(self._in_flight, full=False, tokens=tokens)

    def add(self, times: ChunkTimes, tokens: int | None) -> None:
        """Add an answer.

        Args:
            times: Its times.
            tokens: Its number of tokens; None if the server reported none, or only the sum of several answers.
        """
        self._requests += 1
        self._spreads["e2el"].add([times.latency])
        if not times.chunks:
            return
        first, last = times.chunks[0], times.chunks[-1]
        self._spreads["ttft"].add([first])
        self._spreads["itl"].add([later - earlier for earlier, later in pairwise(times.chunks)])
        if tokens is not None and tokens > 1 and len(times.chunks) > 1:
            self._spreads["tpot"].add([(last - first) / (tokens - 1)])

    def occupancy(self) -> Occupancy | None:
        """Return how full the server was with these requests; None before the first."""
        return self._occupancy.result()

    def speed(self, other_side: OtherSide | None) -> Speed | None:
        """Return the measurements; None if there was no answer.

        Args:
            other_side: Measurements of the server; left out if they are not of the same requests.
        """
        if not self._requests:
            return None
        if other_side is not None and other_side.requests != self._requests:
            other_side = None  # another client used the server as well
        seconds = time.monotonic() - self._started
        return Speed(
            measured_by="client",
            **{name: durations.spread() for name, durations in self._spreads.items()},
            requests=self._requests,
            running_max=self._most_in_flight,
            running_mean=self._seconds_in_flight / seconds if seconds > 0 else None,
            other_side=other_side,
        )
