"""Guard of a web server without login: only its own pages and programs may use it, not pages of other sites.

Every page that is open in a browser can reach a server on 127.0.0.1 of the same machine. Its requests are recognised by
the headers `Host` and `Origin`, which a page cannot set:
https://cheatsheetseries.owasp.org/cheatsheets/Cross-Site_Request_Forgery_Prevention_Cheat_Sheet.html
"""

import ipaddress
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from typing import Any

from regrade.settings.errors import SettingsError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

CONTAINED = ((b"content-security-policy", b"frame-ancestors 'self'; img-src 'self' data: blob:"),)
"""Header of pages that are not ours: no page of another origin frames them, and no text in them loads a picture from elsewhere."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""Names without port under which programs of this machine reach a server on it."""
_MOST_COOKIES = 65_536
"""Bytes of the cookies of a request."""
_MOST_ESCAPES = 1_000
"""Backslashes in them. Python up to 3.11.9 and 3.12.5 reads many in quadratic time: CVE-2024-7592."""


class WithHeaders:
    """An ASGI application that adds headers to each response of another one, except those that the response has."""

    def __init__(self, app: App, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._app, self._headers = app, headers

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                added = [pair for pair in self._headers if pair[0] not in given]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class OwnPagesOnly:
    """An ASGI application that answers 403 to requests of other sites' pages, and passes all others to the wrapped application.

    The middleware of the servers is not enough: Starlette's CORS only keeps a page from reading an answer and ignores
    websockets, Prefect has no check of the host, and MLflow allows every page on localhost.
    """

    def __init__(
        self, app: App, *, origins: Collection[str], hosts: Collection[str] | None = None
    ) -> None:
        """Wrap an application.

        Args:
            app: ASGI application.
            origins: Origins of its own pages, such as `http://127.0.0.1:4200`. Programs send no origin.
            hosts: Names without port under which it is reached; another name is a sign of DNS rebinding. None: any.
        """
        self._app, self._origins, self._hosts = app, frozenset(origins), hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] in ("http", "websocket"):
            problem = _problem_of_cookies(scope["headers"]) or self._problem(
                {name: value.decode("latin-1") for name, value in scope["headers"]}
            )
            if problem is not None:
                await _refuse(scope, receive, send, problem)
                return
        await self._app(scope, receive, send)

    def _problem(self, headers: dict[bytes, str]) -> str | None:
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if self._hosts is not None and without_port(host) not in self._hosts:
            return f"This server does not answer for the host '{without_port(host)}', only for {', '.join(sorted(self._hosts))}."
        if origin is not None and origin not in self._origins:
            return f"A page of {origin} may not use this server, only one of {', '.join(sorted(self._origins))}."
        # A picture or script in another page has no origin: it shows nothing, but how long it takes tells what a search finds.
        site, mode = headers.get(b"sec-fetch-site"), headers.get(b"sec-fetch-mode")
        if origin is None and site in ("cross-site", "same-site") and mode != "navigate":
            return "A page of another site may not use this server, except by a link."
        return None


def split_origins(name: str, value: str | None) -> list[str]:
    """Return the origins of a setting, which are separated by commas.

    Args:
        name: Name of the setting, for the error.
        value: Its value.

    Raises:
        SettingsError: If it is empty, or allows every page.
    """
    origins = [origin.strip().rstrip("/") for origin in (value or "").split(",") if origin.strip()]
    if not origins or any("*" in origin for origin in origins):
        raise SettingsError(
            f"{name} is '{value or ''}', which is no list of origins. Set it to the address of the server's own "
            "pages, such as http://127.0.0.1:4200."
        )
    return origins


def _problem_of_cookies(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    cookies = b"; ".join(value for name, value in headers if name == b"cookie")
    if len(cookies) <= _MOST_COOKIES and cookies.count(b"\\") <= _MOST_ESCAPES:
        return None
    return (
        f"Cookies of more than {_MOST_COOKIES:,} bytes or {_MOST_ESCAPES:,} backslashes are not read. Delete the browser's cookies of this "
        "host, which other servers on it may have set."
    )


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches a server that listens on a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_address(host: str) -> str:
    """Return a host as it stands in addresses: one of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def without_port(host: str) -> str:
    """Return a host without its port; `[::1]:4200` is `[::1]`."""
    return host if host.endswith("]") else host.rpartition(":")[0] or host


async def _refuse(scope: Message, receive: Receive, send: Send, problem: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": ""})  # before accepting: 403
        return
    from starlette.responses import PlainTextResponse  # noqa: PLC0415 - commands without a server start faster

    await PlainTextResponse(f"{problem}\n", 403)(scope, receive, send)
