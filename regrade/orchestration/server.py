"""Run a flow in this process, on the configured Prefect server or a temporary one.

Prefect can start a temporary server itself, but only when the flow begins, and it imports the whole server into this
process. Ours is imported in a separate process while the command checks its input, and starts when that is done.
"""

import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from regrade.orchestration.configured import may_have_server
from regrade.orchestration.login_page import AUTH, LoginFirst, asks_first
from regrade.processes.importing import quick_imports
from regrade.processes.shutdown import KEPT
from regrade.processes.supervised import SupervisedProcess, free_port, take_descriptor
from regrade.processes.supervisor import CHANNEL_VARIABLE
from regrade.processes.web_guard import CONTAINED, OwnPagesOnly, WithHeaders, split_origins
from regrade.settings.errors import OperationError, RegradeError, SettingsError
from regrade.settings.files import log_file

# Prefect's server with a guard against other pages: `uvicorn --factory regrade.orchestration.server:create_app`.
#
# Prefect's own protection is set by environment variables, see `protection`. It does not check the host.

HOSTS = "REGRADE_PREFECT_HOSTS"
"""Environment variable with the names under which the server is reached, separated by commas; without ports."""
LOOPBACK = "127.0.0.1,localhost"
"""Names under which a server on this machine is reached."""
ORIGINS = "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"
_NOT_OF_A_RUN = (
    "/automations",
    "/collections",
    "/deployments",
    "/saved_searches",
    "/task_workers",
    "/ui",
    "/work_",
)
"""Prefixes of the routes that no flow run calls: a temporary server leaves them out, because each route takes a millisecond or two."""
EPHEMERAL = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
"""Prefect's settings for an ephemeral server: no UI, no background services."""


def create_app() -> WithHeaders:
    """Return the server as an ASGI application. Its background services run in the same process.

    Raises:
        SettingsError: If PREFECT_SERVER_CORS_ALLOWED_ORIGINS allows every page.
    """
    with quick_imports():
        from prefect.server.api import server  # noqa: PLC0415 - slow

        temporary = EPHEMERAL.items() <= os.environ.items()
        if temporary:
            server.API_ROUTERS = tuple(  # type: ignore[assignment]  # it has a type for each
                router
                for router in server.API_ROUTERS
                if not router.prefix.startswith(_NOT_OF_A_RUN)
            )
        # `final` searches all objects for those that are no longer used, which pays only in a server that stays.
        application = server.create_app(final=not temporary)
    origins = split_origins(ORIGINS, os.environ.get(ORIGINS))
    hosts = [name.strip() for name in (os.environ.get(HOSTS) or LOOPBACK).split(",")]
    # Around the application, not as its middleware: Prefect's services call the application in this process, by the
    # host `prefect-in-memory`.
    pages = LoginFirst(application) if asks_first(os.environ) else application
    guarded = OwnPagesOnly(pages, origins=origins, hosts=hosts)
    if CHANNEL_VARIABLE in os.environ:
        _wait_for_owner(take_descriptor(CHANNEL_VARIABLE))
    return WithHeaders(guarded, CONTAINED)


def _wait_for_owner(channel: int) -> None:
    """Wait until the owner of a temporary server starts it: uvicorn opens no port and Prefect no database before."""
    with socket.socket(fileno=channel) as owner:
        if not owner.recv(1):
            sys.exit()


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
        AUTH: login,
        HOSTS: LOOPBACK,
    }


def new_login() -> str:
    """Return a random login."""
    return f"regrade:{secrets.token_urlsafe(24)}"


_R = TypeVar("_R")
STARTUP_SECONDS = 180
"""Longest start, in seconds. The first start creates the database, which takes 18 s on two cores."""
GRACE = 3.0
"""Seconds from SIGTERM to SIGKILL, when the server is stopped."""
UNREACHABLE = "Failed to reach API at"
"""Start of the message Prefect raises if its server cannot be reached."""


class PrefectGoneError(OperationError):
    """The Prefect server does not answer."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.temporary = False
        """True for a temporary server, which ends with the command."""
        super().__init__(problem)

    def __str__(self) -> str:
        run = "Run" if self.temporary else "Start it again, or unset PREFECT_API_URL, and run"
        return f"{self.problem} {run} the same command again. {KEPT}"


_begun: list["TemporaryServer"] = []


def begin_server() -> None:
    """Let the temporary server of the flow that this process is about to run be imported, before our own slow imports.

    There is none if a server may be configured.
    """
    if not may_have_server():
        _begun.append(TemporaryServer(log_file("regrade")))


def begun_server() -> "TemporaryServer | None":
    """Return the server of `begin_server`, once."""
    return _begun.pop() if _begun else None


class TemporaryServer:
    """A Prefect server on a free port of 127.0.0.1, with a login that only this process knows.

    It ends with this process, because Prefect needs it until exit.
    """

    def __init__(self, log: Path) -> None:
        """Let a process import the server, which starts with `start`.

        Args:
            log: File to which the server's output is appended.
        """
        port = free_port()
        command = server_command("127.0.0.1", port, log_level="error")
        self.api_url = f"http://127.0.0.1:{port}/api"
        self.login = new_login()
        self.log = log
        environment = os.environ | EPHEMERAL | protection(port, self.login)
        self._channel, channel = socket.socketpair()
        with channel:
            self._process = SupervisedProcess(
                command, log, environment, grace=GRACE, channel=channel.fileno()
            )

    def start(self) -> None:
        """Let the server open its port and its database, without waiting for it. Idempotent."""
        with self._channel, suppress(OSError):  # `wait` tells of a server that ended
            self._channel.send(b"1")

    @contextmanager
    def ended_by_error(self) -> Iterator[None]:
        """End the server if the block raises, and remove its log if it is empty: nothing runs on it then, and nobody waits for its end."""
        try:
            yield
        except BaseException:
            self._channel.close()
            with suppress(OSError):
                if not self.log.stat().st_size:
                    self.log.unlink()
            threading.Thread(target=self._process.end, name="ending", daemon=True).start()
            raise

    def wait(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            OperationError: If the server ended, or does not answer in time.
        """
        self.start()
        # Prefect imports the encoder when a run begins, and until then there is time.
        import fastapi.encoders  # noqa: F401, PLC0415
        import httpx2  # noqa: PLC0415

        deadline = time.monotonic() + STARTUP_SECONDS
        with httpx2.Client() as client:
            while time.monotonic() < deadline:
                if self._process.has_ended():
                    raise self._unstarted("ended while it was starting")
                try:
                    if client.get(f"{self.api_url}/health").is_success:
                        return
                except httpx2.TransportError:
                    time.sleep(0.05)
        raise self._unstarted(f"did not answer in {STARTUP_SECONDS} s")

    def _unstarted(self, problem: str) -> OperationError:
        return OperationError(
            f"The temporary Prefect server {problem}; its output is in {self.log}. Start a server by hand "
            "(`prefect server start`) and set PREFECT_API_URL to its address."
        )


@contextmanager
def prefect_server(temporary: TemporaryServer | None, *, heartbeats: bool = True) -> Iterator[None]:
    """Use the configured Prefect server, or else a temporary one, within the block.

    Args:
        temporary: The temporary server, if none is configured; waited for.
        heartbeats: Send heartbeats of the flow run to the server. Ending their thread takes a second.

    Raises:
        OperationError: If a temporary server does not start.
    """
    from prefect.settings import (  # noqa: PLC0415 - Prefect is imported only once our logging is set up
        PREFECT_API_AUTH_STRING,
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_UI_ENABLED,
        temporary_settings,
    )

    no_heartbeats = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    if temporary is None:
        with temporary_settings({} if heartbeats else no_heartbeats):
            yield
        return
    make_home()
    temporary.wait()
    # A temporary server has no automation that watches heartbeats, and shows no pages.
    settings = {
        PREFECT_API_URL: temporary.api_url,
        PREFECT_API_AUTH_STRING: temporary.login,
        PREFECT_UI_ENABLED: False,
    }
    with temporary_settings({**settings, **no_heartbeats}):
        try:
            yield
        except PrefectGoneError as error:
            error.temporary = True
            raise


def make_home() -> None:
    """Create Prefect's folder, in which a temporary server keeps its database.

    Raises:
        SettingsError: If that fails.
    """
    from prefect.settings import PREFECT_HOME  # noqa: PLC0415 - as in `prefect_server`

    home = PREFECT_HOME.value()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"PREFECT_HOME '{home}' cannot be created: {error.strerror}. Set it to a folder that can be written."
        ) from error


def flow_result(flow: Callable[..., _R], parameters: dict[str, Any]) -> _R:
    """Run a flow and return its result.

    Raises:
        RegradeError: If the flow raises it.
        PrefectGoneError: If the Prefect server cannot be reached, at the start or later.
        OperationError: If it requires another login.
    """
    import httpx  # noqa: PLC0415 - the server starts before slow imports
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415

    from regrade.orchestration.remote.access import without_login  # noqa: PLC0415

    try:
        return flow(**parameters)
    except (httpx.HTTPError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith(UNREACHABLE):
            raise
        if (cause := _first_cause(error)) is not None:
            raise cause from error  # Prefect failed only while reporting it
        url = without_login(PREFECT_API_URL.value())
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403):
            raise OperationError(
                f"Prefect at {url} answers {error.response.status_code}: it requires a login. Set "
                "PREFECT_API_AUTH_STRING to `name:password`. The login of `make stack` is in .stack/.env, that of the compose "
                "file in infra/.env."
            ) from error
        problem = without_login(f"{type(error).__name__}: {error}")
        problem = f"Prefect at {url} does not answer ({problem})."
        raise PrefectGoneError(problem) from error


def _first_cause(error: BaseException) -> RegradeError | None:
    """Return the flow's own error if Prefect failed while reporting it."""
    context = error.__context__
    while context is not None and not isinstance(context, RegradeError):
        context = context.__context__
    return context
