"""A real `mlflow server` on this machine, once per session. Use with `pytest_plugins = ["tests.mlflow_fixtures"]`."""

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrade.tracking.connection import connect
from tests.server_process import free_port, server_process


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory, empty_database: bytes) -> Iterator[str]:
    """Address of an MLflow server that has an empty database and serves artifacts."""
    folder = tmp_path_factory.mktemp("mlflow-server")
    (folder / "mlflow.db").write_bytes(empty_database)
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    address = f"http://127.0.0.1:{port}"
    # As in infra/stack: regrade needs no job queue, whose processes import MLflow for 25 s of a CPU.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = folder / "server.log"
    with server_process(command, f"{address}/health", log, folder=folder, environment=environment):
        yield address


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database of MLflow without runs, made by the first lane that needs it: its tables take seconds."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    made = folder / "empty-mlflow.db"
    with (folder / "empty-mlflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            path = tmp_path_factory.mktemp("mlflow-database") / "mlflow.db"
            with connect(f"sqlite:///{path}") as client:
                client.search_experiments()
            path.replace(made)
    return made.read_bytes()


@pytest.fixture
def mlflow_database(tmp_path: Path, empty_database: bytes) -> Path:
    """The database where MLflow would create it: a copy, because its tables take seconds."""
    path = tmp_path / "mlflow.db"
    path.write_bytes(empty_database)
    return path
