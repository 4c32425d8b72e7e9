"""Parts of the stack: commands, environment variables and readiness checks."""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infra.stack import postgres
from infra.stack.layout import HOST, ROOT, Layout
from regrade.processes.environment import LIBRARY_DEFAULTS

KEPT_RUNS = "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD"
"""Prefect's setting for the time after which it deletes a flow run that has ended, with its logs and pages."""
KEPT_RUNS_SECONDS = 365 * 24 * 3600
"""Default of `KEPT_RUNS`: a year."""


@dataclass(frozen=True)
class Part:
    """A server or worker."""

    name: str
    command: list[str]
    environment: dict[str, str]
    ready: Callable[[], bool]
    """Returns True if the part answers."""


def base_environment(layout: Layout) -> dict[str, str]:
    """Return the caller's variables, without those that name other servers and with telemetry off."""
    foreign = ("PREFECT_", "MLFLOW_", "_MLFLOW_", "PGPASS", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **kept,
        **LIBRARY_DEFAULTS,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
        "PREFECT_HOME": str(layout.home / "prefect"),
        "PYTHONUNBUFFERED": "1",
    }


def client_environment(layout: Layout) -> dict[str, str]:
    """Return the variables for clients of both servers: workers, `regrade deploy`, the command line."""
    return {
        **base_environment(layout),
        "PREFECT_API_URL": f"{layout.prefect_url}/api",
        # Retry for two minutes while a server restarts or its database is down (500).
        "PREFECT_CLIENT_MAX_RETRIES": "6",
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
        "MLFLOW_TRACKING_URI": layout.mlflow_url,
        "REGRADE_HOME": str(ROOT),
        "REGRADE_ANSWERS": layout.answers,
        "REGRADE_SPOOL": str(layout.spool),
        "REGRADE_LOGS": os.environ.get("REGRADE_LOGS") or str(layout.logs),
    }


def database(layout: Layout) -> Part:
    """Return the Postgres server."""
    command, environment = postgres.server_command(layout), base_environment(layout)
    return Part("postgres", command, environment, lambda: postgres.answers(layout))


def servers(layout: Layout) -> list[Part]:
    """Return the servers of Prefect and MLflow, which read their passwords from PGPASSFILE."""
    environment = {**base_environment(layout), "PGPASSFILE": str(layout.passwords)}
    where = f"{HOST}:{layout.postgres_port}"
    prefect = {
        **environment,
        "PREFECT_API_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://prefect@{where}/prefect",
        "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",  # infra/stack/schema.py does it
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        KEPT_RUNS: kept_runs_seconds(),
        "PREFECT_UI_API_URL": f"{layout.prefect_url}/api",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }
    mlflow = {
        **environment,
        "MLFLOW_BACKEND_STORE_URI": f"postgresql+psycopg://mlflow@{where}/mlflow",
        "MLFLOW_ARTIFACTS_DESTINATION": str(layout.artifacts),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # runs of regrade do not need its job queue
    }
    start_prefect = _module(
        "prefect", "server", "start", "--host", HOST, "--port", layout.prefect_port
    )
    start_mlflow = _module("mlflow", "server", "--host", HOST, "--port", layout.mlflow_port)
    start_mlflow += ["--workers", "1"]
    healths = (f"{layout.prefect_url}/api/health", f"{layout.mlflow_url}/health")
    return [
        Part("prefect", start_prefect, prefect, lambda: _answer(healths[0]) is not None),
        Part("mlflow", start_mlflow, mlflow, lambda: _answer(healths[1]) is not None),
    ]


def kept_runs_seconds() -> str:
    """Return the value of `KEPT_RUNS`, as set by the caller."""
    return os.environ.get(KEPT_RUNS) or str(KEPT_RUNS_SECONDS)


def workers(layout: Layout) -> list[Part]:
    """Return a process worker for each pool; the worker for `gpu` runs one flow at a time."""
    return [_worker(layout, "gpu", "--limit", "1"), _worker(layout, "cpu")]


def _worker(layout: Layout, pool: str, *options: str) -> Part:
    name = f"stack-{pool}"
    start = ("worker", "start", "--pool", pool, "--type", "process", "--name", name, *options)
    online = f"{layout.prefect_url}/api/work_pools/{pool}/workers/filter"

    def ready() -> bool:
        workers = json.loads(_answer(online, b"{}") or b"[]")
        return any(w["name"] == name and w["status"] == "ONLINE" for w in workers)

    return Part(f"worker-{pool}", _module("prefect", *start), client_environment(layout), ready)


def _module(*arguments: str | int) -> list[str]:
    return [sys.executable, "-m", *map(str, arguments)]


def _answer(url: str, body: bytes | None = None) -> bytes | None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, OSError):
        return None
