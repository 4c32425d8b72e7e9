"""A real `mlflow server` on this machine, once per session. Use with `pytest_plugins = ["tests.mlflow_fixtures"]`."""

import sys
from collections.abc import Iterator

import pytest

from tests.server_process import free_port, server_process


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an MLflow server that has an empty database and serves artifacts."""
    folder = tmp_path_factory.mktemp("mlflow-server")
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    address = f"http://127.0.0.1:{port}"
    with server_process(command, f"{address}/health", folder / "server.log", folder=folder):
        yield address
