"""Calls to the Hub with timeouts and retries; errors say what to do."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx2
from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import HfHubHTTPError

from regrade.hub.client import bound_requests, unsigned
from regrade.hub.retries import (
    FAILURES,
    NotSettledError,
    Problem,
    RetryPolicy,
    brief,
    causes,
    is_transient,
    problem_of,
    seconds_asked,
    status_of,
)
from regrade.settings.errors import HubError, RegradeError, RepositoryError

TOKENS_PAGE = "https://huggingface.co/settings/tokens"
_TOKEN = re.compile(r"\b(hf|api)_[A-Za-z0-9_-]{4,}")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, repr=False)
class HubCalls:
    """Calls about one repository; every failure becomes a `RegradeError` without the token."""

    uri: str
    endpoint: str | None
    """None: `HF_ENDPOINT`, else https://huggingface.co."""
    given_token: str | None
    timeout: float
    retries: RetryPolicy

    def token(self) -> str | None:
        """Return the token: `given_token`, else `HF_TOKEN`, else the token of `hf auth login`.

        Raises:
            RepositoryError: If it has a wrong format, because the error about a malformed header would show the token.
        """
        token = self.given_token or get_token()
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise RepositoryError(
                self.uri,
                "the token is malformed: it has blanks or special characters. Check `HF_TOKEN`.",
            )
        return token

    def api(self) -> HfApi:
        """Return a client whose requests have a timeout."""
        bound_requests(self.timeout)
        return HfApi(endpoint=self.address(), token=self.token(), library_name="regrade")

    def address(self) -> str:
        """Return the address of the Hub."""
        return self.endpoint or os.environ.get("HF_ENDPOINT") or constants.ENDPOINT

    def ask(self, operation: str, question: Callable[[HfApi], Result]) -> Result:
        """Return the result of `question`, with retries after transient errors.

        Raises:
            RepositoryError: If a person must act.
            HubError: If the Hub failed, after the last try.
        """
        try:
            return self.retries.call(operation, lambda: question(self.api()))
        except (*FAILURES, NotSettledError) as error:
            token = self.token()
            explained = explain(self.uri, operation, error, address=self.address(), token=token)
            echoed = token is not None and any(token in str(cause) for cause in causes(error))
            raise explained from None if echoed else error


def explain(
    uri: str, operation: str, error: Exception, *, address: str, token: str | None
) -> RegradeError:
    """Convert an error of huggingface_hub.

    Returns:
        A `RepositoryError` if a person must act, else a `HubError` with `retryable` set.
    """
    if (advice := _advice(uri, error, token)) is not None:
        return RepositoryError(uri, f"while {operation}: {advice}")
    retryable = is_transient(error)
    if not retryable and isinstance(error, OSError) and error.errno is not None:
        return HubError(uri, operation, f"{error.strerror} ('{error.filename}')", False)
    problem = brief(error)
    if status_of(error) is None and any(
        isinstance(c, httpx2.TransportError) for c in causes(error)
    ):
        problem = f"no answer from {address} ({problem})"
    if message := _server_message(error, token):
        problem += f": {message}"
    if (seconds := seconds_asked(error)) is not None:
        problem += f" (try again in {seconds:.0f} s)"
    return HubError(uri, operation, problem, retryable)


def _advice(uri: str, error: Exception, token: str | None) -> str | None:
    kind = "dataset" if uri.startswith("hf://datasets/") else "model"
    name = uri.removeprefix("hf://").removeprefix("datasets/")
    set_token = f"et `HF_TOKEN` to a token with write access to '{name}' ({TOKENS_PAGE})."
    match problem_of(error):
        case Problem.OFFLINE:
            return "offline mode is on. Unset `HF_HUB_OFFLINE`."
        case Problem.GATED:
            return "it is gated. Ask for access on its page."
        case Problem.NO_REVISION | Problem.NO_FILE:
            return "there is no such file or revision."
        case Problem.NO_REPOSITORY:
            missing = f"there is no {kind} '{name}', or it is private and"
            if token is None:
                return f"{missing} no token is set. S{set_token}"
            return f"{missing} the token in use may not see it. Check the name, or s{set_token}"
        case Problem.UNAUTHORIZED if token is None:
            return f"a token is needed, and none is set. S{set_token}"
        case Problem.UNAUTHORIZED:
            return f"the token in use is wrong or has expired (401). S{set_token}"
        case Problem.FORBIDDEN:
            return f"the token in use does not allow it (403). S{set_token}"
        case _:
            return None


def _server_message(error: BaseException, token: str | None) -> str:
    """Return the Hub's error message, shortened and with tokens masked."""
    text = ""
    for cause in causes(error):
        if isinstance(cause, HfHubHTTPError):
            message = cause.server_message or cause.response.headers.get("x-error-message")
            text = text or message or ""
        elif isinstance(cause, ValueError):
            text = text or str(cause)
    if token:
        text = text.replace(token, "***")
    return " ".join(_TOKEN.sub("***", unsigned(text)).split())[:400]
