"""The HTTP endpoint that Prometheus scrapes: off by default, on loopback unless another address is set."""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regrade.processes.metrics_state import AnswerSetState
from regrade.processes.web_guard import LOOPBACK_NAMES, in_address, is_loopback, without_port
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
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


_lock = threading.Lock()
_served: "tuple[WSGIServer, threading.Thread] | None" = None
_states: Callable[[], Sequence[AnswerSetState]] = list
"""Read at each scrape, because a later evaluation of this process replaces it."""


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
    global _served, _states  # noqa: PLW0603 - a process has one endpoint
    wanted = ports()
    if not wanted:
        return None
    with _lock:
        _states = states
        _served = _served or _start(wanted)
        if _served is None:
            return None
        host, port = _served[0].server_address[:2]
        return f"http://{in_address(str(host))}:{port}/metrics"


def stop() -> None:
    """Stop serving metrics."""
    global _served  # noqa: PLW0603
    with _lock:
        if _served is not None:
            server, thread = _served
            server.shutdown()
            server.server_close()
            thread.join()
            _served = None


def _start(wanted: Sequence[int]) -> "tuple[WSGIServer, threading.Thread] | None":
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
    registry.register(EvaluationCollector(lambda: _states()))  # noqa: PLW0108
    if is_loopback(host):
        names = *LOOPBACK_NAMES, in_address(host)
        server.set_app(_own_names_only(make_wsgi_app(registry), names))
    logger.info("metrics for Prometheus: http://%s:%d/metrics", in_address(host), port)
    return server, thread


def _own_names_only(app: _App, names: Sequence[str]) -> _App:
    """Return the WSGI application. It refuses other host names, which a page sends that uses DNS rebinding."""

    def guarded(environ: "WSGIEnvironment", respond: "StartResponse") -> Iterable[bytes]:
        if without_port(str(environ.get("HTTP_HOST", LOOPBACK))) in names:
            return app(environ, respond)
        respond("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"This server answers for {', '.join(names)} only.\n".encode()]

    return guarded


# Metrics in Prometheus' data model, computed from the evaluation at each scrape, without counters of their own.

LABELS = ("benchmark", "model", "answer_set")
"""Labels of each metric: fields of `AnswerSetState`."""


class StateMetric(NamedTuple):
    """A field of `AnswerSetState` as a metric."""

    field: str
    name: str
    """Name of the metric; a counter's ends in `_total`."""
    help: str
    labels: Mapping[str, str] = {}
    """Labels beside those of the answer set; they tell fields of one metric apart."""


_FAILED = "Answers of this run without text: `failed` may succeed later, `refused` cannot."
_TOKENS, _COMMITS = "Tokens of this run.", "Attempts of this run to publish answers."
METRICS = (
    StateMetric("planned", "regrade_answers_planned", "Answers of the complete answer set."),
    StateMetric(
        "stored", "regrade_answers_stored", "Answers from earlier runs, and of other machines."
    ),
    StateMetric("left", "regrade_answers_left", "Answers that are not on disk yet."),
    StateMetric(
        "in_engine",
        "regrade_requests_in_engine",
        "Requests that the engine has and has not answered.",
    ),
    StateMetric("spool_rows", "regrade_spool_rows", "Answers on disk that are not published."),
    StateMetric("spool_bytes", "regrade_spool_bytes", "Size of the spool on disk."),
    StateMetric(
        "last_commit",
        "regrade_last_commit_timestamp_seconds",
        "Time of the last commit of answers.",
    ),
    StateMetric(
        "load_seconds", "regrade_engine_load_seconds", "Time that the engine took to load."
    ),
    StateMetric("answers", "regrade_answers_total", "Answers of this run that are on disk."),
    StateMetric("failed", "regrade_failed_answers_total", _FAILED, {"reason": "failed"}),
    StateMetric("refused", "regrade_failed_answers_total", _FAILED, {"reason": "refused"}),
    StateMetric("prompt_tokens", "regrade_tokens_total", _TOKENS, {"kind": "prompt"}),
    StateMetric("completion_tokens", "regrade_tokens_total", _TOKENS, {"kind": "completion"}),
    StateMetric("commits", "regrade_commits_total", _COMMITS, {"outcome": "published"}),
    StateMetric("failed_commits", "regrade_commits_total", _COMMITS, {"outcome": "failed"}),
)


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
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for count, name, help_, more in METRICS:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = families.setdefault(name, kind(name, help_, labels=[*LABELS, *more]))
            for state in states:
                if (number := getattr(state, count)) is not None:
                    own = (getattr(state, label) for label in LABELS)
                    family.add_metric([*own, *more.values()], number)
        yield from families.values()
