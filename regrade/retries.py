"""Failed HTTP calls, most of them to the Hub: is it worth another try, and how long to wait before it.

huggingface_hub retries uploads and listings itself. It retries neither the commit nor `repo_info`,
`paths-info`, `create_repo` and the first look at a download.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx2
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.utils._http import parse_ratelimit_headers
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
    wait_random,
)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

FAILURES = (httpx2.HTTPError, OSError, RuntimeError, ValueError)
"""All that huggingface_hub raises when a call fails; its own classes derive from these."""


class NotSettledError(Exception):
    """The Hub does not show yet what it has already confirmed."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is tried again; a longer wait that the Hub asks for is honoured."""

    attempts: int = 8
    first_wait: float = 1.0
    """Seconds before the second try; doubled before each further one, plus up to as much at random."""
    longest_wait: float = 60.0
    total: float = 900.0
    """Seconds after which no further try is begun."""

    def call(self, operation: str, function: Callable[[], Result]) -> Result:
        """Return what `function` returns, after trying again where that may help.

        Raises:
            Exception: The last error of `function`, as it was.
        """

        def log(state: RetryCallState) -> None:
            outcome, action = state.outcome, state.next_action
            if outcome is not None and action is not None:
                logger.warning(
                    "The Hub did not answer as hoped while %s (%s); trying again in %.1f s",
                    operation,
                    brief(outcome.exception()),
                    action.sleep,
                )

        backoff = wait_exponential(self.first_wait, self.longest_wait) + wait_random(
            0, self.first_wait
        )

        def wait(state: RetryCallState) -> float:
            asked = seconds_asked(state.outcome.exception()) if state.outcome else None
            return backoff(state) if asked is None else asked + backoff(state) / 10

        retrying = Retrying(
            retry=retry_if_exception(is_transient),
            wait=wait,
            stop=stop_after_attempt(self.attempts) | stop_before_delay(self.total),
            before_sleep=log,
            reraise=True,
        )
        return retrying(function)


def status_of(error: BaseException | None) -> int | None:
    """Return the HTTP status behind an error, or None where no response came."""
    response = _response(error)
    return None if response is None else response.status_code


def is_transient_status(status: int) -> bool:
    """Return whether the same request may succeed later: after 408, 429 and 5xx."""
    return status in (408, 429) or status >= 500


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed later."""
    for cause in causes(error):
        if isinstance(cause, HfHubHTTPError):
            status = cause.response.status_code
            # huggingface_hub wraps what a storage server said; 400 there means bytes lost on their way.
            lost = status == 400 and isinstance(error, RuntimeError)
            return is_transient_status(status) or lost
        if isinstance(cause, OfflineModeIsEnabled | httpx2.LocalProtocolError):
            return False
        if isinstance(
            cause,
            httpx2.TransportError
            | ConnectionError
            | TimeoutError
            | json.JSONDecodeError  # a gateway's page in place of the Hub's answer
            | NotSettledError,
        ):
            return True
        if type(cause) is OSError and cause.errno is None:
            return True  # huggingface_hub: a download of the wrong length
    # hf_xet has no finer class for what fails on the way, nor has a client that another thread closed.
    return type(error) is RuntimeError


def seconds_asked(error: BaseException | None) -> float | None:
    """Return how long the Hub asks to wait (`RateLimit`, `Retry-After`), or None where it does not say."""
    response = _response(error)
    if response is None:
        return None
    limit = parse_ratelimit_headers(response.headers)
    if response.status_code == 429 and limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    return retry_after(response.headers)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` header (seconds or a date), at least 0; None if it has no such time.

    Args:
        headers: Headers of a response, by names in any case (as httpx and aiohttp give them).
    """
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):  # no date, or one without a time zone
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def brief(error: BaseException | None) -> str:
    """Return what went wrong in a few words that never hold a header, an address or a token."""
    status = status_of(error)
    if status is not None:
        return f"HTTP status {status}"
    if isinstance(error, NotSettledError):
        return "it does not show yet what was committed"
    chain = list(causes(error))
    return type(chain[-1]).__name__ if chain else "no reason given"


def _response(error: BaseException | None) -> httpx2.Response | None:
    for cause in causes(error):
        if isinstance(cause, HfHubHTTPError):
            return cause.response
    return None


def causes(error: BaseException | None, *, hidden: bool = False) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause's cause and so on.

    Args:
        error: Last error.
        hidden: Also follow errors during whose handling another was raised, even `from None`. Such an error may
            have nothing to do with the later one.
    """
    while error is not None:
        yield error
        error = error.__cause__ or (error.__context__ if hidden else None)
