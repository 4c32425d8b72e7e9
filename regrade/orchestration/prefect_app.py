"""Prefect's server with a guard against other pages: `uvicorn --factory regrade.orchestration.prefect_app:create_app`.

Prefect's own protection is set by environment variables, see `protection`. It has no check of the host.
"""

import os
import secrets
import sys

from regrade.processes.web_guard import OwnPagesOnly, split_origins

HOSTS = "REGRADE_PREFECT_HOSTS"
"""Environment variable with the names under which the server is reached, separated by commas; without ports."""
LOOPBACK = "127.0.0.1,localhost"
"""Names under which a server on this machine is reached."""
ORIGINS = "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"


def create_app() -> OwnPagesOnly:
    """Return the server as an ASGI application. Its background services run in the same process.

    Raises:
        SettingsError: If PREFECT_SERVER_CORS_ALLOWED_ORIGINS allows every page.
    """
    from prefect.server.api.server import create_app as create_prefect_app  # noqa: PLC0415 - slow

    origins = split_origins(ORIGINS, os.environ.get(ORIGINS))
    hosts = [name.strip() for name in (os.environ.get(HOSTS) or LOOPBACK).split(",")]
    # Around the application, not as its middleware: Prefect's services call the application in this process, by the
    # host `prefect-in-memory`.
    return OwnPagesOnly(create_prefect_app(final=True), origins=origins, hosts=hosts)


def server_command(host: str, port: int, *, log_level: str = "warning") -> list[str]:
    """Return the command that runs the server; `protection` has its variables."""
    app = [f"{__name__}:create_app", "--host", host, "--port", str(port)]
    options = ["--log-level", log_level, "--lifespan", "on"]
    return [sys.executable, "-m", "uvicorn", "--factory", *app, *options]


def protection(port: int, login: str) -> dict[str, str]:
    """Return the variables of a server on this machine: only its own pages, a token against forged requests, a login.

    Args:
        port: Port of the server.
        login: Name and password, separated by a colon; clients have them in PREFECT_API_AUTH_STRING.
    """
    return {
        ORIGINS: ",".join(f"http://{name}:{port}" for name in LOOPBACK.split(",")),
        "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_SERVER_API_AUTH_STRING": login,
        HOSTS: LOOPBACK,
    }


def new_login() -> str:
    """Return a random login."""
    return f"regrade:{secrets.token_urlsafe(24)}"
