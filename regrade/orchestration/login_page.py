"""A page that asks for the login of a Prefect server before its own pages are sent.

Prefect's pages ask the API before anybody has logged in, and greet with red messages of what it refuses.
"""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from regrade.processes.web_guard import App, Message, Receive, Send

AUTH = "PREFECT_SERVER_API_AUTH_STRING"
"""Environment variable with the login that the server requires."""
SERVE_BASE = "PREFECT_UI_SERVE_BASE"
_ANSWERED_ELSEWHERE = ("/api", "/assets/", "/ico/", "/ui-settings")
_COOKIE = "regrade-login-"
"""Beginning of the name of the cookie of a browser that has logged in; the port follows, because ports share cookies."""


class LoginFirst:
    """An ASGI application that answers with the login page where a browser without a login would get a page of another one.

    It protects nothing: the API checks the login of each request. The cookie is no secret, and only says that the browser keeps
    a login.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._page = files("regrade.orchestration").joinpath("login.html").read_text("utf-8")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send the login page, or pass the request on."""
        if scope["type"] != "http" or not self._wants_page(scope):
            await self._app(scope, receive, send)
            return
        from starlette.responses import HTMLResponse  # noqa: PLC0415 - commands without a server start faster

        headers = {
            "cache-control": "no-store",
            "content-security-policy": self._policy(),
            "referrer-policy": "no-referrer",
        }
        await HTMLResponse(self._page, headers=headers)(scope, receive, send)

    def _wants_page(self, scope: Message) -> bool:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        return (
            scope["method"] == "GET"
            and "text/html" in headers.get(b"accept", "")
            and not scope["path"].startswith(_ANSWERED_ELSEWHERE)
            and not _has_logged_in(headers)
        )

    def _policy(self) -> str:
        """Allow the page's own script and style only, and requests to the server."""
        allowed = (f"{tag}-src '{self._hash(tag)}'" for tag in ("script", "style"))
        always = "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'"
        return "; ".join((always, "frame-ancestors 'none'", *allowed))

    def _hash(self, tag: str) -> str:
        text = self._page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _has_logged_in(headers: Mapping[bytes, str]) -> bool:
    port = headers.get(b"host", "").rpartition(":")[2]
    cookies = (cookie.partition("=")[0].strip() for cookie in headers.get(b"cookie", "").split(";"))
    return f"{_COOKIE}{port if port.isdecimal() else ''}" in cookies


def asks_first(environment: Mapping[str, str]) -> bool:
    """Return True if the server requires a login, and its pages lie at the root, where the login page finds the API."""
    return bool(environment.get(AUTH)) and environment.get(SERVE_BASE, "/") in ("", "/")
