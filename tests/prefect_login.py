"""Log in to a Prefect server as `regrade` and Prefect's clients do: HTTP basic, and a token for each client that changes something."""

from collections.abc import Generator
from uuid import uuid4

import httpx

LOGIN = "tests:a login"
"""Login of the servers that tests start; tests/conftest.py gives it to all processes."""


class Login(httpx.Auth):
    """Authentication for httpx."""

    requires_response_body = True

    def __init__(self, login: str = LOGIN) -> None:
        self._basic = httpx.BasicAuth(*login.split(":", 1))
        self._client = uuid4().hex
        self._token: str | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        basic = next(self._basic.auth_flow(request)).headers["Authorization"]
        if request.method not in ("GET", "HEAD"):
            if self._token is None:
                api = str(request.url).partition("/api")[0] + "/api"
                address = f"{api}/csrf-token?client={self._client}"
                answer = yield httpx.Request("GET", address, headers={"Authorization": basic})
                self._token = answer.raise_for_status().json()["token"]
            request.headers["Prefect-Csrf-Token"] = str(self._token)
            request.headers["Prefect-Csrf-Client"] = self._client
        yield request
