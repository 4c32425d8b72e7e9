"""Retries of failed calls to the Hub: classify errors, and choose the wait.

huggingface_hub retries uploads and listings, but not commits, `repo_info`, `paths-info`, `create_repo` or the first
request of a download. Answer repositories, models and datasets share this classification.
"""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

import httpx2
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
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

from regrade.hub.http_client import Failure, failure_of, retry_after
from regrade.settings.errors import HeadMovedError, HubError, RegradeError

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

FAILURES = (httpx2.HTTPError, OSError, RuntimeError, ValueError)
"""Base classes of all errors of huggingface_hub for a failed call."""


class NotSettledError(Exception):
    """The Hub does not show a confirmed commit yet."""


class Problem(Enum):
    """Kind of a failed call to the Hub, which decides the remedy."""

    TEMPORARY = auto()
    """The same call may succeed later."""
    UNREACHABLE = auto()
    """No connection: this machine has no network, or the address is wrong. Later it may have one."""
    OFFLINE = auto()
    """Huggingface_hub is in offline mode."""
    GATED = auto()
    """The user has to request access."""
    NO_REPOSITORY = auto()
    """The repository does not exist, or it is private."""
    NO_REVISION = auto()
    """No such branch, tag or commit."""
    NO_FILE = auto()
    """No such file."""
    UNAUTHORIZED = auto()
    """No token, or a wrong one."""
    FORBIDDEN = auto()
    """The token does not allow it."""
    OTHER = auto()
    """Anything else."""


_PROBLEMS: dict[type[BaseException], Problem | None] = {
    OfflineModeIsEnabled: Problem.OFFLINE,
    GatedRepoError: Problem.GATED,  # before the class that it derives from
    RepositoryNotFoundError: Problem.NO_REPOSITORY,
    RevisionNotFoundError: Problem.NO_REVISION,
    LocalEntryNotFoundError: None,  # neither downloaded nor in the cache: the cause has the reason
    EntryNotFoundError: Problem.NO_FILE,
    httpx2.LocalProtocolError: Problem.OTHER,
    httpx2.ConnectError: Problem.UNREACHABLE,
    **dict.fromkeys(
        (httpx2.TransportError, ConnectionError, TimeoutError, NotSettledError), Problem.TEMPORARY
    ),
}
"""Problem of an error by its class; the first that fits counts."""
_STATUSES = {
    Failure.TRANSIENT: Problem.TEMPORARY,
    Failure.UNAUTHORIZED: Problem.UNAUTHORIZED,
    Failure.FORBIDDEN: Problem.FORBIDDEN,
}
_GARBLED = (json.JSONDecodeError, UnicodeDecodeError)
"""Raised for a gateway's page, or damaged bytes, instead of JSON."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of tries, and waits between them, unless the Hub requests a longer wait."""

    attempts: int = 8
    first_wait: float = 1.0
    """Seconds before the second try, doubled for each later try; up to `first_wait` is added at random."""
    longest_wait: float = 60.0
    """Upper limit of the doubled wait, in seconds."""
    total: float = 900.0
    """Seconds after which no new try begins."""

    def call(
        self, operation: str, function: Callable[[], Result], *, needs_network: bool = False
    ) -> Result:
        """Return the result of `function`, with retries after transient errors.

        Args:
            operation: Name of the call in log lines.
            function: The call.
            needs_network: Do not wait for a connection if there is none.

        Raises:
            Exception: The last error of `function`, unchanged.
        """

        def log(state: RetryCallState) -> None:
            outcome, action = state.outcome, state.next_action
            if outcome is not None and action is not None:
                logger.warning(
                    "The Hub failed while %s (%s); retrying in %.1f s",
                    operation,
                    brief(outcome.exception()),
                    action.sleep,
                )

        backoff = wait_exponential(self.first_wait, self.longest_wait) + wait_random(
            0, self.first_wait
        )

        def wait(state: RetryCallState) -> float:
            requested = seconds_asked(state.outcome.exception()) if state.outcome else None
            return backoff(state) if requested is None else requested + backoff(state) / 10

        retrying = Retrying(
            retry=retry_if_exception(
                lambda error: (
                    is_transient(error)
                    and not (needs_network and problem_of(error) is Problem.UNREACHABLE)
                )
            ),
            wait=wait,
            stop=stop_after_attempt(self.attempts) | stop_before_delay(self.total),
            before_sleep=log,
            reraise=True,
        )
        return retrying(function)


def status_of(error: BaseException | None) -> int | None:
    """Return the HTTP status behind an error, or None if no response came."""
    response = _response(error)
    return None if response is None else response.status_code


def is_transient(error: BaseException) -> bool:
    """Return True if the same call may succeed later."""
    return problem_of(error) in (Problem.TEMPORARY, Problem.UNREACHABLE)


def problem_of(error: BaseException, *, hidden: bool = False, reads_files: bool = False) -> Problem:
    """Return the kind of a failed call: offline, unreachable or temporary if any cause is, else that of the first known cause.

    Args:
        error: Error of the call.
        hidden: Also look at causes that `datasets` hides; see `causes`.
        reads_files: The call also reads the content of files, so that errors of decoding say nothing about the Hub.
    """
    if isinstance(error, RegradeError):  # already classified
        # A commit conflict needs another commit.
        conflict = isinstance(error, HeadMovedError)
        retryable = isinstance(error, HubError) and error.retryable and not conflict
        return Problem.TEMPORARY if retryable else Problem.OTHER
    found = [_problem(cause, error, reads_files) for cause in causes(error, hidden=hidden)]
    for decisive in (Problem.OFFLINE, Problem.UNREACHABLE, Problem.TEMPORARY):
        if decisive in found:
            return decisive
    known = [problem for problem in found if problem is not None]
    if not known and type(error) is RuntimeError and not reads_files:
        return Problem.TEMPORARY  # hf_xet: network errors; a client that another thread closed
    weak = (Problem.NO_FILE, Problem.OTHER)  # libraries search for optional files
    return next(
        (problem for problem in known if problem not in weak), (known or [Problem.OTHER])[0]
    )


def _problem(cause: BaseException, outer: BaseException, reads_files: bool) -> Problem | None:
    """Return the problem of a single error of a chain, or None."""
    for kind, problem in _PROBLEMS.items():
        if isinstance(cause, kind):
            return problem
    if isinstance(cause, HfHubHTTPError | httpx2.HTTPStatusError):
        status = cause.response.status_code
        # huggingface_hub wraps errors of storage servers in RuntimeError; 400 means that bytes were lost.
        lost = status == 400 and isinstance(outer, RuntimeError)
        return Problem.TEMPORARY if lost else _STATUSES.get(failure_of(status), Problem.OTHER)
    if not reads_files and isinstance(cause, _GARBLED):
        return Problem.TEMPORARY
    if not reads_files and type(cause) is OSError and cause.errno is None:
        return Problem.TEMPORARY  # huggingface_hub: a download has the wrong length
    return None


def seconds_asked(error: BaseException | None) -> float | None:
    """Return the wait in seconds that the Hub requests (`RateLimit`, `Retry-After`), or None."""
    response = _response(error)
    if response is None:
        return None
    limit = parse_ratelimit_headers(response.headers)
    if response.status_code == 429 and limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    return retry_after(response.headers)


def brief(error: BaseException | None) -> str:
    """Describe an error in a few words, without headers, addresses or tokens."""
    status = status_of(error)
    if status is not None:
        return f"HTTP status {status}"
    if isinstance(error, NotSettledError):
        return "it does not show the new commit yet"
    chain = list(causes(error))
    last = chain[-1] if chain else None
    if isinstance(last, OSError) and last.errno is not None and last.filename is not None:
        return f"{last.strerror}: '{last.filename}'"
    return type(last).__name__ if last is not None else "unknown reason"


def _response(error: BaseException | None) -> httpx2.Response | None:
    kinds = HfHubHTTPError | httpx2.HTTPStatusError
    return next((cause.response for cause in causes(error) if isinstance(cause, kinds)), None)


def causes(error: BaseException | None, *, hidden: bool = False) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause's cause and so on.

    Args:
        error: Last error.
        hidden: Also follow `__context__`, even of errors raised `from None`; such an error may be unrelated.
    """
    while error is not None:
        yield error
        error = error.__cause__ or (error.__context__ if hidden else None)
