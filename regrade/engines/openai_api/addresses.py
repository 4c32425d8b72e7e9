"""Choose one of several servers with the same model: the one with the fewest requests in flight."""

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

logger = logging.getLogger("regrade.generate")

REST_SECONDS = 30.0
"""Seconds for which an address gets no requests after one failed, if another address works."""


@dataclass(slots=True, eq=False)
class Address:
    """Address of a server's API."""

    url: str
    in_flight: int = 0
    rests_until: float = 0.0
    """By `time.monotonic`."""

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count a request in flight while the block runs."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


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
        return min(left, key=lambda a: (max(0.0, a.rests_until - now), a.in_flight), default=None)

    def rest(self, address: Address, problem: str, seconds: float | None = None) -> None:
        """Send no requests to an address for some time, unless all others fail, too."""
        now = time.monotonic()
        if len(self._all) > 1 and address.rests_until <= now:
            logger.warning(
                "the server at %s rests, others take its requests: %s", address.url, problem
            )
        address.rests_until = now + (REST_SECONDS if seconds is None else seconds)
