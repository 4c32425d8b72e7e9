"""What the stack consists of: the commands, their environment, and how one sees that they are ready."""

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
from regrade.cli.environment import QUIET


@dataclass(frozen=True)
class Part:
    """One server or worker."""

    name: str
    command: list[str]
    environment: dict[str, str]
    ready: Callable[[], bool]
    """Says whether it does its work."""


def base_environment(layout: Layout) -> dict[str, str]:
    """Return the caller's variables without what would lead to another stack, telemetry off."""
    foreign = ("PREFECT_", "MLFLOW_", "_MLFLOW_", "PGPASS", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **kept,
        **QUIET,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
        "PREFECT_HOME": str(layout.home / "prefect"),
        "PYTHONUNBUFFERED": "1",
    }


def client_environment(layout: Layout) -> dict[str, str]:
    """Return the variables of whoever uses the two servers: workers, `regrade deploy`, the command line."""
    return {
        **base_environment(layout),
        "PREFECT_API_URL": f"{layout.prefect_url}/api",
        # Two minutes for a server that is restarted, or whose database is away (500).
        "PREFECT_CLIENT_MAX_RETRIES": "6",
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
        "MLFLOW_TRACKING_URI": layout.mlflow_url,
        "REGRADE_HOME": str(ROOT),
        "REGRADE_ANSWERS": layout.answers,
        "REGRADE_SPOOL": os.environ.get("REGRADE_SPOOL") or str(layout.home / "spool"),
        "REGRADE_LOGS": os.environ.get("REGRADE_LOGS") or str(layout.logs),
    }


def database(layout: Layout) -> Part:
    """Return the Postgres server."""
    environment = base_environment(layout)
    return Part(
        "postgres",
        postgres.server_command(layout),
        environment,
        lambda: postgres.answers(layout),
    )


def servers(layout: Layout) -> list[Part]:
    """Return Prefect's and MLflow's servers. Neither gets a password, only the file to read it from."""
    environment = {**base_environment(layout), "PGPASSFILE": str(layout.passwords)}
    where = f"{HOST}:{layout.postgres_port}"
    prefect = {
        **environment,
        "PREFECT_API_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://prefect@{where}/prefect",
        "PREFECT_UI_API_URL": f"{layout.prefect_url}/api",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }
    mlflow = {
        **environment,
        "MLFLOW_BACKEND_STORE_URI": f"postgresql+psycopg://mlflow@{where}/mlflow",
        "MLFLOW_ARTIFACTS_DESTINATION": str(layout.home / "artifacts"),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # none of our runs need its job queue
    }
    return [
        Part(
            "prefect",
            _module("prefect", "server", "start", "--host", HOST, "--port", layout.prefect_port),
            prefect,
            lambda: _answer(f"{layout.prefect_url}/api/health") is not None,
        ),
        Part(
            "mlflow",
            _module(
                "mlflow", "server", "--host", HOST, "--port", layout.mlflow_port, "--workers", 1
            ),
            mlflow,
            lambda: _answer(f"{layout.mlflow_url}/health") is not None,
        ),
    ]


def workers(layout: Layout) -> list[Part]:
    """Return a process worker for each pool; the one for `gpu` runs one flow at a time."""
    return [_worker(layout, "gpu", "--limit", "1"), _worker(layout, "cpu")]


def _worker(layout: Layout, pool: str, *options: str) -> Part:
    name = f"stack-{pool}"
    start = ("worker", "start", "--pool", pool, "--type", "process", "--name", name, *options)
    online = f"{layout.prefect_url}/api/work_pools/{pool}/workers/filter"

    def ready() -> bool:
        found = json.loads(_answer(online, b"{}") or b"[]")
        return any(one["name"] == name and one["status"] == "ONLINE" for one in found)

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
