"""Requests to a server: what is tried again, what fails one row, and what ends everything."""

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from regrade.engines.openai import OpenAIEngine
from regrade.errors import EngineError, SettingsError
from regrade.retries import retry_after

_LONGEST_WAIT = 60.0
_LONGEST_ASKED = 300.0
"""Longest wait in seconds, even if the server asks for more."""


class RefusedError(Exception):
    """The server does not do this request; others it may do."""

    def __init__(self, status: int | None, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(status, message)

    def __str__(self) -> str:
        return self.message


@dataclass
class _TryAgainError(Exception):
    """A failure that may pass."""

    problem: str
    status: int | None = None
    after: float | None = None
    """Seconds that the server asked to wait."""


class Server:
    """A server with an OpenAI-compatible API. Use it within one event loop."""

    def __init__(self, settings: OpenAIEngine) -> None:
        self._settings = settings
        self._base = settings.base_url.rstrip("/")
        self._last_success = -math.inf
        key = os.environ.get(settings.api_key_env)
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=aiohttp.ClientTimeout(total=settings.timeout),
            connector=aiohttp.TCPConnector(limit=settings.max_concurrency),
            json_serialize=lambda content: orjson.dumps(content).decode(),
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request.

        429, 5xx, timeouts and broken connections are tried again, at the time that the server names or after
        growing waits; nothing else is.

        Raises:
            RefusedError: If the server refuses this request, or fails at it to the last try.
            SettingsError: If it refuses the key (401, 403) or does not know the address or model (404).
            EngineError: If it cannot be reached, or did nothing for anyone while this request was tried.
        """
        started = time.monotonic()
        attempts = AsyncRetrying(
            stop=stop_after_attempt(self._settings.max_retries + 1),
            wait=_wait,
            retry=retry_if_exception_type(_TryAgainError),
            reraise=True,
        )
        try:
            answer: dict[str, Any] = await attempts(self._try, f"{self._base}/{path}", body)
        except _TryAgainError as error:
            raise self._given_up(error, started) from error
        self._last_success = time.monotonic()
        return answer

    async def version(self) -> str | None:
        """Return the version that a vLLM server names beside its API, or None."""
        url = f"{self._base.removesuffix('/v1')}/version"
        try:
            async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=10)) as response:
                content = orjson.loads(await response.read()) if response.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError):
            return None
        version = content.get("version") if isinstance(content, dict) else None
        return version if isinstance(version, str) else None

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _try(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            async with self._session.post(url, json=body) as response:
                content = await response.read()
                status, headers = response.status, response.headers
        except TimeoutError as error:
            seconds = self._settings.timeout
            raise _TryAgainError(f"no answer within {seconds:g} s") from error
        except aiohttp.ClientError as error:
            raise _TryAgainError(str(error) or type(error).__name__) from error
        if status == 429 or status >= 500:
            raise _TryAgainError(f"{status}: {_message(content)}", status, retry_after(headers))
        if status in (401, 403):
            state = "is refused" if self._settings.api_key_env in os.environ else "is not set"
            raise SettingsError(
                f"{url} answers {status}: the key in environment variable {self._settings.api_key_env} {state}. "
                f"The server says: {_message(content)}"
            )
        if status == 404:
            raise SettingsError(
                f"{url} answers 404: {_message(content)} Check engine.base_url and the model."
            )
        if status >= 400:
            raise RefusedError(status, f"The server refuses it ({status}): {_message(content)}")
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise RefusedError(status, "The server's answer is not JSON.") from error
        if not isinstance(answer, dict):
            raise RefusedError(status, "The server's answer is not a JSON object.")
        return answer

    def _given_up(self, error: _TryAgainError, started: float) -> Exception:
        problem = f"{self._settings.max_retries + 1} times: {error.problem}."
        unreachable = isinstance(error.__cause__, aiohttp.ClientConnectorError)
        if unreachable or self._last_success < started:
            return EngineError(f"The server at {self._base} failed {problem}")
        return RefusedError(error.status, f"The server failed {problem}")


_grow = wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, _TryAgainError) and error.after is not None:
        return min(error.after, _LONGEST_ASKED)
    return _grow(state)


def _message(content: bytes) -> str:
    """Return the message in a server's error, whatever its form."""
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        answer = content.decode(errors="replace")
    if isinstance(answer, dict):
        inner = answer.get("error", answer)
        answer = inner.get("message", inner) if isinstance(inner, dict) else inner
    return " ".join(str(answer).split())[:500] or "(nothing)"
