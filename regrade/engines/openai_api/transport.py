"""HTTP requests with retries; an error fails either one row or the whole run."""

import math
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from regrade.engines.openai_api.addresses import Address, Addresses, until_reset
from regrade.engines.openai_api.settings import ServerSettings
from regrade.engines.openai_api.streaming import END, StreamedResponse, events
from regrade.hub.http_client import Failure, failure_of, retry_after
from regrade.models.served import login, not_accepted
from regrade.settings.errors import EngineError, SettingsError
from regrade.settings.problems import one_line

_LONGEST_WAIT = 60.0
"""Longest wait before a retry, in seconds, if the server names none."""
_CONNECT_SECONDS = 30.0
"""Longest time to connect, in seconds; a machine that is switched off does not refuse a connection."""
_LONGEST_RETRY_AFTER = 300.0
"""Longest wait that a server may request (`Retry-After`), in seconds."""
_TOO_MANY = 429
"""Status of a server that gets more requests than it allows."""
_ENDING_TOKENS = 16
"""Tokens at the end of a prompt that are searched for the beginning of a thought."""
_SPACES = " \n\N{LATIN CAPITAL LETTER C WITH DOT ABOVE}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}\N{LOWER ONE EIGHTH BLOCK}"
"""White space, also as byte-level and SentencePiece tokens write it."""
_MOST_BYTES = 4 << 20
"""Most bytes of a response beside the tokens of its answers."""
_MOST_TOKEN_BYTES = 2048
"""Most bytes of a token, with the JSON around it."""
_MOST_RANK_BYTES = 256
"""Most bytes of each token that is ranked beside it."""
_RANKED = ("logprobs", "top_logprobs", "prompt_logprobs")
"""Fields of a request with the number of tokens that are ranked at each position."""
TokenCount = Annotated[int, Field(ge=0, lt=1 << 31)]
"""Number of tokens, as the column of an answer holds it."""
_CONTEXT = re.compile(r"context[ _]length", re.IGNORECASE)
_OF_PROMPT = re.compile(
    r"context[ _]length|content|prompt|polic(y|ies)|safety|flagged", re.IGNORECASE
)
"""Words of refusals that may be due to the question: filters of content, and limits on its length."""


class RefusedError(Exception):
    """The server rejects this request; other requests may succeed."""

    def __init__(self, status: int | None, message: str, field: str | None = None) -> None:
        self.status, self.message = status, message
        self.field = field
        """Field of the body that the server names apart from its message, if it does."""
        super().__init__(status, message)

    def __str__(self) -> str:
        return self.message

    @property
    def too_long(self) -> bool:
        """True if the request exceeds the context, which servers report only in the message."""
        return self.status in (400, 413, 422) and _CONTEXT.search(self.message) is not None


def concerns_prompt(problem: str) -> bool:
    """Return True if a refusal may be due to the question, so that another question may be accepted."""
    return _OF_PROMPT.search(problem) is not None


@dataclass
class _RetryableError(Exception):
    """A temporary failure, worth a retry."""

    problem: str
    status: int | None = None
    wait: float | None = None
    """Seconds to wait before the retry, as requested by the server."""
    moves: bool = True
    """The request may go to another server at once."""


class Server:
    """One or several servers with the same OpenAI-compatible API and model. Use it within one event loop."""

    def __init__(self, settings: ServerSettings, urls: Sequence[str]) -> None:
        """Prepare the connections.

        Args:
            settings: Limits, and the name of the key.
            urls: Addresses of the servers that answer.
        """
        self._settings = settings
        self._addresses = Addresses(urls)
        self._last_success = -math.inf
        self._session = aiohttp.ClientSession(
            headers={"Accept-Encoding": "identity", **login(settings.api_key_env)},
            auto_decompress=False,  # a small response may unpack to any size
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=min(settings.timeout, _CONNECT_SECONDS),
                sock_read=settings.timeout,
            ),
            connector=aiohttp.TCPConnector(limit=0),  # the client limits its requests
            json_serialize=lambda content: orjson.dumps(content).decode(),
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to a path of the API, or beside it (`/tokenize`), and return the JSON response; a streamed one is joined.

        Retries 408, 429, 5xx, timeouts and broken connections, after the wait that the server requests or with
        exponential backoff. While the server answers other requests, 429 is retried as often again as the requests in
        flight can be halved: it may be due to them, not to this one. Other errors are not retried.

        Choices of a streamed response also have `chunks`, the times of their pieces in seconds, and the response has `seconds`, its
        duration. Both begin when the request was sent for the last time: an answer that breaks off is requested again.

        Raises:
            RefusedError: If the server rejects this request, or if all retries fail while other requests succeed.
            SettingsError: If the server rejects the key (401, 403) or does not know the address or model (404).
            EngineError: If the server cannot be reached, or no request succeeded since this one began.
        """
        started = time.monotonic()
        attempts = AsyncRetrying(
            stop=partial(self._enough, started),
            wait=_wait,
            retry=retry_if_exception_type(_RetryableError),
            reraise=True,
        )
        try:
            response: dict[str, Any] = await attempts(self._somewhere, path, body)
        except _RetryableError as error:
            number = attempts.statistics["attempt_number"]
            raise self._final_error(error, started, number) from error
        self._last_success = time.monotonic()
        return response

    async def _somewhere(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to one server after another until one answers; each gets it once."""
        tried: list[Address] = []
        failure: _RetryableError | None = None
        while (address := self._addresses.next(tried)) is not None:
            tried.append(address)
            try:
                async with address.turn():
                    response = await self._send(address, path, body)
                address.accepted()
                return response
            except _RetryableError as error:
                if error.status == _TOO_MANY or error.wait is not None:
                    address.refused(error.problem, min(error.wait or 0.0, _LONGEST_RETRY_AFTER))
                self._addresses.rest(address, error.problem, error.wait)
                failure = error
                if not error.moves:
                    break
        raise failure or RuntimeError("there is no address")

    async def version(self) -> str | None:
        """Return the version that a vLLM server reports at `/version`, or None."""
        version = _json_object(await self._get("/version")).get("version")
        return version if isinstance(version, str) else None

    async def metrics(self) -> str | None:
        """Return the Prometheus metrics that a vLLM server serves at `/metrics`, or None; None for several servers."""
        if len(self._addresses) > 1:
            return None
        try:
            return (await self._get("/metrics")).decode() or None
        except UnicodeDecodeError:
            return None

    async def prompt_ending(self, body: Mapping[str, Any]) -> str | None:
        """Return the end of a chat as a vLLM server renders it, without trailing white space; None if it does not report it.

        Args:
            body: `model`, `messages` and the fields of the chat template.
        """
        request = {**body, "add_generation_prompt": True, "return_token_strs": True}
        url = _url(self._addresses.first, "/tokenize")
        asking = self._session.post(url, json=request, allow_redirects=False)
        tokens = _json_object(await _told(asking, _most_bytes(body))).get("token_strs")
        if not isinstance(tokens, list):
            return None
        return "".join(map(str, tokens[-_ENDING_TOKENS:])).rstrip(_SPACES)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _send(self, address: Address, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        started, answer = time.monotonic(), StreamedResponse()
        async with self._opened(address, path, body) as response:
            if response.content_type != "text/event-stream":
                return _document(await _read(response, _most_bytes(body)), response.status)
            async for data in events(_bounded(response, _most_bytes(body))):
                if data == END:
                    answer.ended = True
                    break
                event = _document(data, response.status)
                try:
                    answer.add(event)
                except ValueError as error:
                    raise RefusedError(response.status, str(error)) from error
        if not answer.is_whole:
            raise _RetryableError("the answer broke off")
        return answer.document(chat="messages" in body, started=started)

    @asynccontextmanager
    async def _opened(
        self, address: Address, path: str, body: Mapping[str, Any]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request to an address, and yield the response if its status is a success."""
        url = _url(address, path)
        try:
            async with self._session.post(url, json=body, allow_redirects=False) as response:
                if response.status >= 400:
                    raise self._error(url, response, await _read(response))
                if (seconds := until_reset(response.headers)) is not None:
                    address.pause(min(seconds, _LONGEST_RETRY_AFTER))
                if response.status >= 300:
                    raise _redirected(url, response)
                yield response
        except TimeoutError as error:
            seconds = self._settings.timeout
            raise _RetryableError(f"nothing came for {seconds:g} s", moves=False) from error
        except aiohttp.ClientResponseError as error:  # its message repeats what came
            raise _RetryableError("the response is not valid HTTP") from error
        except aiohttp.ClientError as error:
            raise _RetryableError(str(error) or type(error).__name__) from error

    async def _get(self, path: str) -> bytes:
        """Return what the first server tells at a path; empty if it tells nothing."""
        url, timeout = _url(self._addresses.first, path), aiohttp.ClientTimeout(total=10)
        return await _told(self._session.get(url, timeout=timeout, allow_redirects=False))

    def _error(self, url: str, response: aiohttp.ClientResponse, content: bytes) -> Exception:
        status, message = response.status, _message(content)
        if failure_of(status) is Failure.TRANSIENT:
            return _RetryableError(f"{status}: {message}", status, retry_after(response.headers))
        settings_error = not_accepted(url, status, self._settings.api_key_env, message)
        return settings_error or RefusedError(
            status, f"The server rejected the request ({status}): {message}", _field(content)
        )

    def _enough(self, started: float, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        attempts = self._settings.max_retries + 1
        too_many = isinstance(error, _RetryableError) and error.status == _TOO_MANY
        if too_many and self._last_success >= started:
            attempts += self._settings.max_concurrency.bit_length()
        return state.attempt_number >= attempts

    def _final_error(self, error: _RetryableError, started: float, attempts: int) -> Exception:
        problem = f"{attempts} times: {error.problem}."
        unreachable = isinstance(error.__cause__, aiohttp.ClientConnectorError)
        if unreachable or self._last_success < started:
            return EngineError(f"The server at {self._addresses} failed {problem}")
        return RefusedError(error.status, f"The server failed {problem}")


_backoff = wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, _RetryableError) and error.wait is not None:
        return min(error.wait, _LONGEST_RETRY_AFTER)
    return _backoff(state)


def _most_bytes(body: Mapping[str, Any]) -> int:
    """Return the most bytes of a response to a request: what it asked for, generously counted."""
    prompts = body.get("prompt")
    answers = len(prompts) if isinstance(prompts, list) else 1
    ranked = max(int(body.get(name) or 0) for name in _RANKED)
    token = _MOST_TOKEN_BYTES + _MOST_RANK_BYTES * ranked
    echoed = body.get("echo") or body.get("prompt_logprobs")
    given = sum(len(text) for text in prompts or ()) if echoed else 0
    most = int(body.get("max_tokens") or body.get("max_completion_tokens") or 0)
    return _MOST_BYTES + token * (answers * most + given)


async def _bounded(response: aiohttp.ClientResponse, most: int) -> AsyncIterator[bytes]:
    """Yield the pieces of a response as they come.

    Raises:
        RefusedError: If it is compressed, which it was not asked to be, or longer than `most` bytes.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RefusedError(response.status, "The server sent a compressed response unasked.")
    async for piece in response.content.iter_any():
        most -= len(piece)
        if most < 0:
            raise RefusedError(response.status, "The server sent far more than was asked for.")
        yield piece


async def _read(response: aiohttp.ClientResponse, most: int = _MOST_BYTES) -> bytes:
    """Return the content of a response.

    Raises:
        RefusedError: See `_bounded`.
    """
    return b"".join([piece async for piece in _bounded(response, most)])


async def _told(
    asking: AbstractAsyncContextManager[aiohttp.ClientResponse], most: int = _MOST_BYTES
) -> bytes:
    """Return the content of a successful response of at most so many bytes; empty for anything else."""
    try:
        async with asking as response:
            return await _read(response, most) if response.status == 200 else b""
    except (aiohttp.ClientError, TimeoutError, RefusedError):
        return b""


def _url(address: Address, path: str) -> str:
    """Return the URL of a path of the API; one that begins with `/`, such as vLLM's `/tokenize`, is beside it."""
    return f"{address.url.removesuffix('/v1') if path.startswith('/') else f'{address.url}/'}{path}"


def _redirected(url: str, response: aiohttp.ClientResponse) -> SettingsError:
    place = urlsplit(urljoin(url, response.headers.get("Location", "")))
    return SettingsError(
        f"{url} answers {response.status}: it redirects to {place.scheme}://{place.netloc}, which is not followed. If the API is "
        "there, set `--base-url` (`engine.base_url`) to its address."
    )


class _Part(BaseModel):
    """Part of a response: what is stored with the answer, or looked into. Servers add fields of their own."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _Ranked(_Part):
    token: str
    logprob: float


class _Position(_Part):
    top_logprobs: list[_Ranked] | None = None


class _Logprobs(_Part):
    """Log-probabilities of a chat (`content`) or of a text."""

    content: list[_Position] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None


class _Choice(_Part):
    index: int = 0
    finish_reason: str | None = None
    message: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    logprobs: _Logprobs | None = None


class _Usage(_Part):
    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None


class _Response(_Part):
    """A response, or an event of one."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None


def _document(content: bytes, status: int) -> dict[str, Any]:
    """Return a successful response, or an event of one.

    Raises:
        RefusedError: If it is not of the API's form, or says that the request is rejected.
        _RetryableError: If it says that the server failed.
    """
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise RefusedError(status, "The server's response is not JSON.") from error
    if not isinstance(document, dict):
        raise RefusedError(status, "The server's response is not a JSON object.")
    if document.get("error") is not None:
        raise _error_within(document["error"], content)
    try:
        _Response.model_validate(document)
    except ValidationError as error:
        raise RefusedError(
            status, f"The server's response is not of the API's form: {one_line(error)}."
        ) from error
    return document


def _error_within(details: object, content: bytes) -> Exception:
    """Return the error that a server sends within a response whose status is a success."""
    code = details.get("code") if isinstance(details, dict) else None
    status = code if isinstance(code, int) else None
    if status is None or failure_of(status) is Failure.TRANSIENT:
        return _RetryableError(f"error within the response: {_message(content)}", status)
    return RefusedError(status, f"The server rejected the request ({status}): {_message(content)}")


def _json_object(content: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _problem(content: bytes) -> Any:  # noqa: ANN401 - whatever a server sends
    """Return what an error response says in the form of the API."""
    answer = _json_object(content)
    return answer.get("error", answer)


def _field(content: bytes) -> str | None:
    """Return the field that an error response names (`param` in OpenAI's API)."""
    problem = _problem(content)
    field = problem.get("param") if isinstance(problem, dict) else None
    return field if isinstance(field, str) else None


def _message(content: bytes) -> str:
    """Return the message of an error response in the form of the API; of anything else only its size.

    A page that is not the API's may hold what the sender of the request should not see.
    """
    problem = _problem(content)
    message = problem
    if isinstance(problem, dict):
        message = problem.get("message", problem.get("detail"))
    if message is None:
        return f"(no error of the API, but {len(content):,} bytes)" if content else "(nothing)"
    return " ".join(str(message).split())[:500] or "(nothing)"
