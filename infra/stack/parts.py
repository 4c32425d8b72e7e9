"""Parts of the stack: commands, environment variables and readiness checks."""

import base64
import json
import os
import pwd
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from infra.stack import postgres, prometheus
from infra.stack.layout import HOST, ROOT, Layout
from infra.stack.login import NAME, mlflow_protection, read_login
from infra.stack.users import as_user, worker_variables
from regrade.hub.http_client import NoResponseError, send
from regrade.orchestration.server import protection, server_command
from regrade.processes.environment import LIBRARY_DEFAULTS
from regrade.processes.metrics_endpoint import PORT_VARIABLE

KEPT_RUNS = "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD"
"""Prefect's setting for the time after which it deletes a flow run that has ended, with its logs and pages."""
KEPT_RUNS_SECONDS = 365 * 24 * 3600
"""Default of `KEPT_RUNS`: a year."""
GUARDED_MLFLOW = ROOT / "infra/mlflow"
"""Folder with an entry point of MLflow: its application `guarded`."""


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
        NAME: read_login(layout),
        # Retry for two minutes while a server restarts or its database is down (500).
        "PREFECT_CLIENT_MAX_RETRIES": "6",
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
        "MLFLOW_TRACKING_URI": layout.mlflow_url,
        "REGRADE_HOME": str(ROOT),
        "REGRADE_ANSWERS": layout.answers,
        "REGRADE_VIEW_URL": layout.view_url,
        "REGRADE_SPOOL": str(layout.spool),
        "REGRADE_QUESTIONS": os.environ.get("REGRADE_QUESTIONS") or str(layout.home / "questions"),
        "REGRADE_LOGS": os.environ.get("REGRADE_LOGS") or str(layout.engine_logs),
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
        **protection(layout.prefect_port, read_login(layout)),
    }
    mlflow = {
        **environment,
        "MLFLOW_BACKEND_STORE_URI": f"postgresql+psycopg://mlflow@{where}/mlflow",
        "MLFLOW_ARTIFACTS_DESTINATION": str(layout.artifacts),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # runs of regrade do not need its job queue
        **mlflow_protection(layout.mlflow_port),
        "PYTHONPATH": os.pathsep.join([*_paths(), str(GUARDED_MLFLOW)]),
    }
    start_prefect = server_command(HOST, layout.prefect_port)
    start_mlflow = _module("mlflow", "server", "--host", HOST, "--port", layout.mlflow_port)
    start_mlflow += ["--workers", "1", "--app-name", "guarded"]
    return [
        Part("prefect", start_prefect, prefect, _answers(f"{layout.prefect_url}/api/health")),
        Part("mlflow", start_mlflow, mlflow, _answers(f"{layout.mlflow_url}/health")),
    ]


def kept_runs_seconds() -> str:
    """Return the value of `KEPT_RUNS`, as set by the caller."""
    return os.environ.get(KEPT_RUNS) or str(KEPT_RUNS_SECONDS)


def workers(layout: Layout, user: pwd.struct_passwd | None = None) -> list[Part]:
    """Return a process worker for each pool; the worker for `gpu` runs one flow at a time.

    Args:
        layout: Folders and addresses.
        user: The user who runs them; None for the user of this process.
    """
    return [_worker(layout, user, "gpu", "--limit", "1"), _worker(layout, user, "cpu")]


def viewer(layout: Layout, user: pwd.struct_passwd | None = None) -> Part:
    """Return the viewer of the stack's answers (`regrade view`). It reads as the user of the workers.

    Args:
        layout: Folders and addresses.
        user: The user who runs it; None for the user of this process.
    """
    options = ("--host", HOST, "--port", layout.view_port, "--empty")
    command = as_user(user, _module("regrade.cli.main", "view", layout.answers, *options))
    environment = client_environment(layout) | worker_variables(layout, user)
    for unneeded in (NAME, "PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
        del environment[unneeded]
    health = f"http://{HOST}:{layout.view_port}/health"
    return Part("view", command, environment, lambda: _is_listening(health))


def monitoring(layout: Layout, user: pwd.struct_passwd | None = None) -> list[Part]:
    """Return Prometheus, if its program is there and it is not switched off.

    Args:
        layout: Folders and addresses.
        user: The user who runs it; None for the user of this process.
    """
    binary = prometheus.program()
    if binary is None or layout.prometheus_port is None:
        return []
    command = as_user(user, prometheus.command(layout, binary))
    ready = _answers(f"{layout.prometheus_url}/-/ready")
    return [Part("prometheus", command, base_environment(layout), ready)]


def _answers(url: str) -> Callable[[], bool]:
    return lambda: _answer(url) is not None


def _is_listening(url: str) -> bool:
    """Return True if a server answers, even if it asks for a token."""
    try:
        return send(url, seconds=5).status < 500
    except NoResponseError:
        return False


def _worker(layout: Layout, user: pwd.struct_passwd | None, pool: str, *options: str) -> Part:
    name = f"stack-{pool}"
    start = ("worker", "--pool", pool, "--name", name, *options)
    online = f"/work_pools/{pool}/workers/filter"

    def ready() -> bool:
        workers = json.loads(_prefect(layout, online, b"{}") or b"[]")
        return any(w["name"] == name and w["status"] == "ONLINE" for w in workers)

    command = as_user(user, _module("regrade.cli.main", *start))
    environment = client_environment(layout) | worker_variables(layout, user)
    if pool == "gpu" and monitoring(layout):
        environment[PORT_VARIABLE] = prometheus.run_ports()
    return Part(f"worker-{pool}", command, environment, ready)


def _paths() -> list[str]:
    """Folders of the caller's PYTHONPATH."""
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def _module(*arguments: str | int) -> list[str]:
    return [sys.executable, "-m", *map(str, arguments)]


def _prefect(layout: Layout, path: str, body: bytes) -> bytes | None:
    """Return the answer of Prefect's API to a POST request, or None."""
    api, client = f"{layout.prefect_url}/api", uuid4().hex
    login = base64.b64encode(read_login(layout).encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Prefect-Csrf-Client": client}
    token = _answer(f"{api}/csrf-token?client={client}", headers=headers)
    if token is None:
        return None
    headers["Prefect-Csrf-Token"] = json.loads(token)["token"]
    return _answer(f"{api}{path}", body, headers)


def _answer(
    url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes | None:
    known = {"Content-Type": "application/json", **(headers or {})}
    try:
        response = send(url, seconds=5, headers=known, body=body)
    except NoResponseError:
        return None
    return response.content if response.status < 400 else None
