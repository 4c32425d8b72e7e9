"""A real Prometheus for tests, and the queries of the dashboards."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.grafana.panels import Dashboard
from infra.stack import prometheus
from infra.stack.layout import Layout
from tests.processes.trees import wait_until
from tests.server_process import free_port, server_process

VARIABLES = {"$__rate_interval": "15s", "$instance": ".*"}
"""Variables of Grafana, with values for scrapes every second."""


class Prometheus:
    """A running Prometheus with its API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the result of a query; fail if Prometheus does not accept it."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}).json()
        assert answer["status"] == "success", f"{query}: {answer}"
        return list(answer["data"]["result"])

    def unanswered(self, dashboard: Dashboard) -> dict[str, str]:
        """Return the panels without a value, with their queries."""
        return {
            panel.title: panel.query
            for panel in dashboard.panels
            if not any(_is_number(row) for row in self.ask(_filled(panel.query)))
        }

    def wait_until_answered(self, dashboard: Dashboard, seconds: float) -> None:
        """Wait until each panel has a value; fail with the panels that have none."""
        wait_until(
            lambda: not self.unanswered(dashboard),
            seconds,
            lambda: f"no value: {json.dumps(self.unanswered(dashboard), indent=1)}",
            0.5,
        )


def _filled(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def _is_number(row: dict[str, Any]) -> bool:
    return row["value"][1] not in ("NaN", "+Inf", "-Inf")


@contextmanager
def running(home: Path, targets: dict[str, list[str]]) -> Iterator[Prometheus]:
    """Start the stack's Prometheus, with scrapes every second.

    Args:
        home: Folder for its files.
        targets: Addresses (`host:port`) by job, `regrade` or `vllm`, beside the stack's own.
    """
    binary = prometheus.program()
    if binary is None:
        pytest.skip("Prometheus is not here: infra/prometheus.sh unpacks it")
    place = Layout(home, *(free_port() for _ in range(5)))
    prometheus.write_configuration(place, None)
    place.prometheus_config.write_text(prometheus.configuration(place, interval="1s"))
    for job, addresses in targets.items():
        (place.targets / f"{job}-test.yaml").write_text(json.dumps([{"targets": addresses}]))
    command, ready = prometheus.command(place, binary), f"{place.prometheus_url}/-/ready"
    with server_process(command, ready, home / "prometheus.log"):
        yield Prometheus(place.prometheus_url)
