"""`make ui` on a database of an older MLflow."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from infra.mlflow_upgrade import main
from tests.infra.older_mlflow import one_revision_back

USE = """
import sys
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
print([kept.name for kept in client.search_experiments()] or client.create_experiment("ours"))
"""


def use(uri: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", USE, uri]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def revision(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        return str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])


@pytest.mark.slow  # starts MLflow six times
def test_an_older_database_is_copied_and_upgraded_once(tmp_path: Path):
    path = tmp_path / "mlflow.db"
    uri = f"sqlite:///{path}"
    assert use(uri).returncode == 0
    newest = revision(path)
    one_revision_back(uri)
    older = revision(path)
    assert older != newest

    assert main([uri]) == 0
    assert revision(path) == newest
    assert "Default" in use(uri).stdout
    (copy,) = tmp_path.glob("mlflow.db.before-*")
    assert revision(copy) == older
    copy.unlink()

    assert main([uri]) == 0
    assert not list(tmp_path.glob("mlflow.db.before-*"))


def test_a_server_and_a_database_that_does_not_exist_yet_are_left_alone(tmp_path: Path):
    assert main(["http://127.0.0.1:5000"]) == 0
    assert main([f"sqlite:///{tmp_path / 'mlflow.db'}"]) == 0
    sqlite3.connect(tmp_path / "empty.db").close()
    assert main([f"sqlite:///{tmp_path / 'empty.db'}"]) == 0
    assert {path.name for path in tmp_path.iterdir()} <= {"empty.db", "empty.db.lock"}
