"""Choose one of several servers with the same model, and send each as many requests as it allows."""

import asyncio
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

logger = logging.getLogger("regrade.generate")

REST_SECONDS = 30.0
"""Seconds for which an address gets no requests after one failed, if another address works."""


_SHORTEST_PAUSE = 0.1
"""Shortest pause after a refusal, in seconds, if the server asks for none."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


def until_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a server takes another request, if its answer says that it takes none before.

    Args:
        headers: Headers of a response: `x-ratelimit-remaining-requests`, `x-ratelimit-reset-tokens` and so on, such as `6m0s`
            (https://platform.openai.com/docs/guides/rate-limits).
    """
    waits = []
    for kind in ("requests", "tokens"):
        found = _DURATION.fullmatch(headers.get(f"x-ratelimit-reset-{kind}", ""))
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0" and found and found[0]:
            parts = zip(found.groups(), (3600, 60, 1, 0.001), strict=True)
            waits.append(sum(float(number or 0) * unit for number, unit in parts))
    return max(waits, default=None)


@dataclass(slots=True, eq=False)
class Address:
    """Address of a server's API."""

    url: str
    in_flight: int = 0
    rests_until: float = 0.0
    """By `time.monotonic`. Other addresses go first until then."""
    paused_until: float = 0.0
    """By `time.monotonic`. The server said that it takes no requests until then."""
    most: float = math.inf
    """Most requests in flight; less than what the settings allow after the server refused some as too many."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the server takes a request, and count it as in flight while the block runs."""
        while True:
            if (left := self.paused_until - time.monotonic()) > 0:
                await asyncio.sleep(left)
            elif self.in_flight + 1 > self.most:
                self._ended.clear()
                await self._ended.wait()
            else:
                break
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._ended.set()

    def pause(self, seconds: float) -> None:
        """Send no request for some time."""
        self.paused_until = max(self.paused_until, time.monotonic() + seconds)

    def refused(self, problem: str, seconds: float) -> None:
        """Halve the requests in flight, once for all that the server refused together, and pause as it asks."""
        if self.paused_until <= time.monotonic():
            if self.most == math.inf:
                logger.warning(
                    "fewer requests at a time are sent to %s, as many as it takes: %s",
                    self.url,
                    problem,
                )
            self.most = max(1.0, (self.in_flight + 1) // 2)
        self.pause(max(seconds, _SHORTEST_PAUSE))

    def accepted(self) -> None:
        """Allow another request in flight after as many answers as are in flight now."""
        self.most += 1 / self.most


class Addresses:
    """Addresses between which requests are divided. Use it within one thread."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._all = [Address(url.rstrip("/")) for url in urls]

    def __len__(self) -> int:
        return len(self._all)

    def __str__(self) -> str:
        return ", ".join(address.url for address in self._all)

    @property
    def first(self) -> Address:
        """The first address."""
        return self._all[0]

    def next(self, tried: Collection[Address] = ()) -> Address | None:
        """Return the address for a request: one that does not rest, if possible, with the fewest requests in flight.

        Args:
            tried: Addresses at which the request has failed; if these are all, the result is None.
        """
        now = time.monotonic()
        left = [address for address in self._all if address not in tried]
        return min(
            left,
            key=lambda a: (max(0.0, a.rests_until - now, a.paused_until - now), a.in_flight),
            default=None,
        )

    def rest(self, address: Address, problem: str, seconds: float | None = None) -> None:
        """Send no requests to an address for some time, unless all others fail, too."""
        now = time.monotonic()
        if len(self._all) > 1 and address.rests_until <= now:
            logger.warning(
                "the server at %s rests, others take its requests: %s", address.url, problem
            )
        address.rests_until = now + (REST_SECONDS if seconds is None else seconds)
