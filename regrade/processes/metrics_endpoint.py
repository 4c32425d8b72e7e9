"""The HTTP endpoint that Prometheus scrapes: off by default, on loopback unless another address is set."""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regrade.processes.metrics_state import AnswerSetState
from regrade.processes.web_guard import without_port
from regrade.settings.errors import SettingsError
from regrade.settings.project_folder import VERSION

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger("regrade.metrics")
PORT_VARIABLE = "REGRADE_METRICS_PORT"
"""Environment variable with a port, or a range such as 9464-9467 whose first free port is used."""
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
    """Return the WSGI application. It refuses other host names, which a page sends that uses DNS rebinding."""

    def guarded(environ: "WSGIEnvironment", respond: "StartResponse") -> Iterable[bytes]:
        if without_port(str(environ.get("HTTP_HOST", LOOPBACK))) in _NAMES:
            return app(environ, respond)
        respond("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"This server answers for {', '.join(_NAMES)} only.\n".encode()]

    return guarded


# Metrics in Prometheus' data model, computed from the evaluation at each scrape, without counters of their own.

LABELS = ("benchmark", "model", "answer_set")
GAUGES = (
    ("regrade_answers_planned", "Answers of the complete answer set.", "planned"),
    ("regrade_answers_stored", "Answers from earlier runs, and of other machines.", "stored"),
    ("regrade_answers_left", "Answers that are not on disk yet.", "left"),
    (
        "regrade_requests_in_engine",
        "Requests that the engine has and has not answered.",
        "in_engine",
    ),
    ("regrade_spool_rows", "Answers on disk that are not published.", "spool_rows"),
    ("regrade_spool_bytes", "Size of the spool on disk.", "spool_bytes"),
    ("regrade_last_commit_timestamp_seconds", "Time of the last commit of answers.", "last_commit"),
    ("regrade_engine_load_seconds", "Time that the engine took to load.", "load_seconds"),
)
"""Name, help and field of `AnswerSetState` of each gauge."""
_FAILED = "Answers of this run without text: `failed` may succeed later, `refused` cannot."
_COMMITS = "Attempts of this run to publish answers."
COUNTERS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("regrade_answers", "Answers of this run that are on disk.", "answers", {}),
    ("regrade_failed_answers", _FAILED, "failed", {"reason": "failed"}),
    ("regrade_failed_answers", "", "refused", {"reason": "refused"}),
    ("regrade_tokens", "Tokens of this run.", "prompt_tokens", {"kind": "prompt"}),
    ("regrade_tokens", "", "completion_tokens", {"kind": "completion"}),
    ("regrade_commits", _COMMITS, "commits", {"outcome": "published"}),
    ("regrade_commits", "", "failed_commits", {"outcome": "failed"}),
)
"""Name without `_total`, help, field and further labels of each counter."""


class EvaluationCollector(Collector):
    """Collector of an evaluation's answer sets."""

    def __init__(self, states: Callable[[], Sequence[AnswerSetState]]) -> None:
        """Take the function that returns the states; it is called at each scrape, from another thread."""
        self._states = states

    def describe(self) -> Iterable[Metric]:
        """Return no metrics: they need no check against those of other collectors."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        states = self._states()
        info = GaugeMetricFamily(
            "regrade_info", "Version of regrade; always 1.", labels=["version"]
        )
        info.add_metric([VERSION], 1)
        yield info
        for name, help_, count in GAUGES:
            gauge = GaugeMetricFamily(name, help_, labels=LABELS)
            for state in states:
                if (number := getattr(state, count)) is not None:
                    gauge.add_metric(_labels(state), number)
            yield gauge
        counters: dict[str, CounterMetricFamily] = {}
        for name, help_, count, more in COUNTERS:
            family = counters.setdefault(
                name, CounterMetricFamily(name, help_, labels=[*LABELS, *more])
            )
            for state in states:
                family.add_metric([*_labels(state), *more.values()], getattr(state, count))
        yield from counters.values()


def _labels(state: AnswerSetState) -> list[str]:
    return [state.benchmark, state.model, state.answer_set]
