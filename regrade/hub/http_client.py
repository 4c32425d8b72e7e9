"""HTTP requests of regrade itself, and the meaning of failed requests of any client.

huggingface_hub and Prefect send their requests themselves; the engine `openai`, which keeps hundreds in flight, uses aiohttp
(docs/decisions/0005-http-clients.md). The statuses of all of them are classified here.
"""

import functools
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto

import httpx2

MOST_BYTES = 2**24
"""Longest response read, in bytes; the rest is dropped."""


class Failure(Enum):
    """Meaning of an HTTP status from 400 on."""

    TRANSIENT = auto()
    """The same request may succeed later: 408, 429 and 5xx."""
    UNAUTHORIZED = auto()
    """No credentials, or wrong ones: 401."""
    FORBIDDEN = auto()
    """The credentials do not allow it: 403."""
    NOT_FOUND = auto()
    """No such address: 404."""
    REFUSED = auto()
    """Any other status: the same request fails again."""


_FAILURES = {
    401: Failure.UNAUTHORIZED,
    403: Failure.FORBIDDEN,
    404: Failure.NOT_FOUND,
    408: Failure.TRANSIENT,
    429: Failure.TRANSIENT,
}


class NoResponseError(Exception):
    """No response came: the connection failed or timed out, or the address is invalid. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response with any status."""

    status: int
    headers: Mapping[str, str]
    """Names are case-insensitive."""
    content: bytes


def failure_of(status: int) -> Failure:
    """Return the meaning of a status from 400 on."""
    return Failure.TRANSIENT if status >= 500 else _FAILURES.get(status, Failure.REFUSED)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds (at least 0) of a `Retry-After` header with seconds or a date; None if it has neither.

    Args:
        headers: Headers of a response, with case-insensitive names (as in httpx and aiohttp).
    """
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            # By the server's clock, if it tells it: this machine's may be another one, or jump.
            sent = headers.get("Date")
            now = datetime.now(UTC) if sent is None else parsedate_to_datetime(sent)
            seconds = (parsedate_to_datetime(value) - now).total_seconds()
        except (TypeError, ValueError):  # not a date, or a date without a time zone
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def send(
    url: str, *, seconds: float, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Response:
    """Send a GET request, or a POST request if there is a body. Redirects are followed on the same host and port.

    Args:
        url: Address.
        seconds: Time without progress after which the request fails.
        headers: Headers in addition to those of every request.
        body: Content of a POST request.

    Raises:
        NoResponseError: If no response came, or only a part of it.
    """
    method = "GET" if body is None else "POST"
    content = bytearray()
    try:
        with (
            httpx2.Client(
                verify=_certificates(),
                timeout=seconds,
                follow_redirects=True,
                event_hooks={"response": [_refuse_other_place]},
            ) as client,
            client.stream(
                method,
                url,
                headers={"Accept-Encoding": "identity", **(headers or {})},
                content=body,
            ) as response,
        ):
            for chunk in response.iter_raw():
                content += chunk
                if len(content) >= MOST_BYTES:
                    break
    except httpx2.TimeoutException as error:
        raise NoResponseError(f"nothing came for {seconds:g} s") from error
    except httpx2.LocalProtocolError:
        # The message would repeat a header, which may be a key.
        raise NoResponseError("a header has a character that is not allowed in it") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise NoResponseError(str(error) or type(error).__name__) from error
    return Response(response.status_code, response.headers, bytes(content[:MOST_BYTES]))


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates; reading them takes 20 ms, also for an address without TLS."""
    return httpx2.create_ssl_context()


def _refuse_other_place(response: httpx2.Response) -> None:
    """Refuse a redirect to another host or port: what is there was not asked for."""
    if response.has_redirect_location:
        there = response.url.join(response.headers["Location"])
        place = (there.scheme, there.netloc)
        if place != (response.url.scheme, response.url.netloc):
            raise NoResponseError(
                f"it redirects to {there.scheme}://{there.netloc.decode(errors='replace')}, which is not followed"
            )
