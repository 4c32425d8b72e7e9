"""The HTTP endpoint that Prometheus scrapes: off by default, on loopback unless told otherwise."""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from regrade.errors import SettingsError
from regrade.monitoring.state import AnswerSetState

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger("regrade.metrics")
PORT_VARIABLE = "REGRADE_METRICS_PORT"
"""Environment variable with the port, or a range such as 9464-9467, of which the first free one is taken."""
HOST_VARIABLE = "REGRADE_METRICS_HOST"
"""Environment variable with the address to listen on; 127.0.0.1 if it is not set."""
LOOPBACK = "127.0.0.1"
_App: TypeAlias = "Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]"
_NAMES = (LOOPBACK, "localhost", "[::1]")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


@dataclass(slots=True)
class _Endpoint:
    states: Callable[[], Sequence[AnswerSetState]]
    server: "WSGIServer"
    thread: threading.Thread


_lock = threading.Lock()
_endpoint: _Endpoint | None = None


def ports() -> Sequence[int]:
    """Return the ports of REGRADE_METRICS_PORT; none if it is not set.

    Raises:
        SettingsError: If it is no port or range of ports.
    """
    return ports_of(os.environ.get(PORT_VARIABLE) or "off")


def ports_of(text: str) -> Sequence[int]:
    """Return the ports that a text names, such as `9464` or `9464-9467`; none for `off` and `0`.

    Raises:
        SettingsError: If it names no port or range of ports.
    """
    if text in ("off", "0"):
        return ()
    match = _RANGE.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last <= 65535:
        raise SettingsError(
            f"{PORT_VARIABLE}={text} should be a port from 1 to 65535, or a range such as 9464-9467."
        )
    return range(first, last + 1)


def show(states: Callable[[], Sequence[AnswerSetState]]) -> str | None:
    """Serve metrics of an evaluation until this process ends or `stop` is called; return the address.

    A second call replaces the evaluation.

    Args:
        states: Returns the states of its answer sets; called at each scrape, from another thread.

    Returns:
        None if metrics are off, or all ports of a range are taken, which is only a warning.

    Raises:
        SettingsError: If the only port is taken, or a setting is invalid.
    """
    global _endpoint  # noqa: PLW0603 - a process has one endpoint
    wanted = ports()
    if not wanted:
        return None
    with _lock:
        if _endpoint is not None:
            _endpoint.states = states
        else:
            _endpoint = _start(states, wanted)
        if _endpoint is None:
            return None
        host, port = _endpoint.server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"


def stop() -> None:
    """Stop serving metrics."""
    global _endpoint  # noqa: PLW0603
    with _lock:
        if _endpoint is not None:
            _endpoint.server.shutdown()
            _endpoint.server.server_close()
            _endpoint.thread.join()
            _endpoint = None


def _start(
    states: Callable[[], Sequence[AnswerSetState]], wanted: Sequence[int]
) -> _Endpoint | None:
    # Metrics are off by default, and this import takes a moment.
    from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server  # noqa: PLC0415

    from regrade.monitoring.collector import EvaluationCollector  # noqa: PLC0415

    host, problem = os.environ.get(HOST_VARIABLE) or LOOPBACK, ""
    registry = CollectorRegistry(auto_describe=False)
    for port in wanted:
        try:
            server, thread = start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            problem = f"{host}:{port} ({error.strerror or error})"
        else:
            break
    else:
        if len(wanted) == 1:
            raise SettingsError(
                f"The metrics cannot be served at {problem}. Choose another port, or a range such as 9464-9467."
            )
        logger.warning("no metrics for Prometheus: ports %d to %d are taken", wanted[0], wanted[-1])
        return None
    endpoint = _Endpoint(states, server, thread)
    # Read at each scrape, because a later evaluation of this process replaces it.
    registry.register(EvaluationCollector(lambda: endpoint.states()))  # noqa: PLW0108
    if host == LOOPBACK:
        server.set_app(_own_names_only(make_wsgi_app(registry)))
    logger.info("metrics for Prometheus: http://%s:%d/metrics", host, port)
    return endpoint


def _own_names_only(app: _App) -> _App:
    """Return the WSGI application, closed to pages that reach it by DNS rebinding: those send another host."""

    def guarded(environ: "WSGIEnvironment", respond: "StartResponse") -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", LOOPBACK))
        if (host if host.endswith("]") else host.rpartition(":")[0] or host) in _NAMES:
            return app(environ, respond)
        respond("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"This server answers for {', '.join(_NAMES)} only.\n".encode()]

    return guarded
