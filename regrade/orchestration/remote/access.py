"""Address of the Prefect server, and responses that do not come from its API, such as a proxy's login page."""

import re
from typing import Any

import httpx
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

from regrade.settings.errors import SettingsError

_EXPIRED_TOKEN = "Invalid CSRF token"
_NO_TOKEN = "Missing CSRF token"
"""Message of a server that expects a token against forged requests. Prefect's client sends one if the API has tokens,
so the address is not that of the API."""
_KEPT_METHOD = (307, 308)
"""HTTP status codes of redirects that keep the method and the body of a request."""


class NotThisServerError(SettingsError):
    """PREFECT_API_URL does not lead to a Prefect API, or the login is missing or wrong."""


def address() -> str:
    """Return the address of the Prefect server for messages, without a user and password in it.

    Raises:
        SettingsError: If PREFECT_API_URL is not set, or is no http or https address.
    """
    text = PREFECT_API_URL.value()
    if not text:  # CI sets an empty variable for a missing secret
        raise SettingsError(
            "PREFECT_API_URL is not set. Set it to the server's address, such as http://127.0.0.1:4200/api."
        )
    problem = SettingsError(
        f"PREFECT_API_URL='{str(text).rpartition('@')[2]}' is no address: it should begin with http:// or https://, "
        "such as http://127.0.0.1:4200/api."
    )
    try:
        url = httpx.URL(str(text))
    except httpx.InvalidURL as error:
        raise problem from error
    if url.scheme not in ("http", "https") or not url.host:
        raise problem
    return str(url.copy_with(userinfo=b"")) if url.userinfo else str(text)


def without_login(text: object) -> str:
    """Return the text of an error, in which httpx repeats the address, without a user and password in it."""
    return re.sub(r"(?<=://)[^\s/'\"]*@", "", str(text))


def client_settings() -> dict[str, Any]:
    """Return the settings of httpx for a client of Prefect that raises `NotThisServerError`."""
    return {"event_hooks": {"response": [_refuse_other_answers]}}


def _refuse_other_answers(response: httpx.Response) -> None:
    """Event hook of httpx: refuse responses that a Prefect API would not give to a logged-in client.

    Raises:
        NotThisServerError: On the status codes 401 and 403, a redirect to another address, or a page instead of JSON.
    """
    status = response.status_code
    if status in (401, 403):
        reason = f": {told}" if isinstance(told := detail(response), str) else ""
        if _NO_TOKEN in reason:
            raise NotThisServerError(
                f"The Prefect server {address()} refused: nothing gives a token against forged requests "
                "there. Does PREFECT_API_URL end in /api?"
            )
        if _EXPIRED_TOKEN not in reason:
            raise NotThisServerError(
                f"The Prefect server {address()} refused the login ({status}{reason}). {_advice()}"
            )
    elif response.has_redirect_location:
        target = response.request.url.join(response.headers["location"])
        if status not in _KEPT_METHOD or target.host != response.request.url.host:
            raise NotThisServerError(
                f"The Prefect server {address()} redirects to {target.copy_with(query=None, fragment=None)}. "
                f"If that is a login page: {_advice()} Otherwise set PREFECT_API_URL to the address of the API."
            )
    elif status < 500 and status != 204 and "json" not in response.headers.get("content-type", ""):
        kind = response.headers.get("content-type", "").partition(";")[0] or "no JSON"
        raise NotThisServerError(
            f"{address()} is not a Prefect API: it answered {status} with {kind}. "
            f"Does PREFECT_API_URL end in /api? If a login page answers there: {_advice()}"
        )


def unexpected(response: httpx.Response) -> NotThisServerError:
    """Return the error for a status code that a Prefect API would not return."""
    return NotThisServerError(
        f"The Prefect server {address()} answered {response.status_code} to {response.request.method} "
        f"{response.request.url.path}. Does PREFECT_API_URL end in /api, and is Prefect's version the same on both sides?"
    )


def detail(response: httpx.Response) -> Any:  # noqa: ANN401 - any JSON
    """Return the reason that Prefect gives as JSON; None without one, as on a proxy's page."""
    response.read()
    try:
        return response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return None


def _advice() -> str:
    """Name the variables to set, without their values, which are secrets."""
    if not PREFECT_API_AUTH_STRING.value():
        basic = "Set PREFECT_API_AUTH_STRING to `user:password`"
    else:
        basic = "PREFECT_API_AUTH_STRING is set, but it is not accepted: correct it"
    return f'{basic}, or set PREFECT_CLIENT_CUSTOM_HEADERS to the header that the proxy wants, such as \'{{"Authorization": "Bearer ..."}}\'.'
