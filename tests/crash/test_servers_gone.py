"""Prefect or MLflow ends during a run: no answer and no score is lost."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from tests.crash.conftest import LIMIT, Reference
from tests.crash.harness import Command, accuracy, answer_set, stored
from tests.prefect_fixtures import running_server
from tests.server_process import free_port

pytestmark = [
    pytest.mark.usefixtures("mlflow_database"),
    pytest.mark.prefect,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


def evaluate(home: Path, served: Path, prefect: str, *more: str) -> Command:
    arguments = ["evaluate", "--config", str(served), "--answers", str(home / "answers"), "--json"]
    return Command(home, [*arguments, *more], {"PREFECT_API_URL": prefect})


def runs(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("select count(*) from runs").fetchone()[0])


def test_a_prefect_server_that_dies_costs_no_answer_and_no_score(
    served: Path, reference: Reference, tmp_path: Path
):
    with running_server(tmp_path) as (url, server):
        command = evaluate(tmp_path, served, url)
        with command.started() as run:
            run.until("is ready")
            os.killpg(server.pid, signal.SIGKILL)
            done = run.wait(300)

    assert done.code == 0, done.err
    (result,) = done.document["answer_sets"]
    assert result["rows"] == LIMIT
    assert result["scores"][0]["metrics"]["accuracy"] == reference.accuracy
    assert "the result is complete, but its page in Prefect is not" in done.err
    assert "Traceback" not in done.err
    repository = LocalRepository(tmp_path / "answers")
    assert {key: text for key, (text, _) in stored(repository)} == reference.texts
    assert runs(tmp_path / "mlflow.db") > 0
    command.assert_nothing_left()


def test_a_prefect_server_that_is_not_there_is_named_before_anything_begins(
    served: Path, tmp_path: Path
):
    url = f"http://127.0.0.1:{free_port()}/api"
    refused = evaluate(tmp_path, served, url).finish()
    assert refused.code == 1
    assert f"Prefect at {url} does not answer" in refused.err
    assert "PREFECT_API_URL" in refused.err
    assert "Traceback" not in refused.err


def test_an_mlflow_that_is_gone_costs_no_score_and_is_made_up_for_with_one_command(
    served: Path, prefect_server: str, reference: Reference, tmp_path: Path
):
    gone = f"http://127.0.0.1:{free_port()}"
    command = evaluate(tmp_path, served, prefect_server, "--tracking-uri", gone)

    failed = command.finish()

    assert failed.code == 1, failed.err
    (result,) = failed.document["answer_sets"]
    assert result["scores"][0]["metrics"]["accuracy"] == reference.accuracy
    assert result["mlflow_run_id"] is None
    assert gone in failed.err
    assert "regrade score --answers" in failed.err
    repository = LocalRepository(tmp_path / "answers")
    assert accuracy(repository) == reference.accuracy
    answers = answer_set(repository)
    assert len(answers.scores()) > 0

    made_up = command.with_arguments("score", "--answers", repository.uri, "--json").finish()
    assert made_up.code == 0, made_up.err
    assert made_up.document["answer_sets"][0]["mlflow_run_id"]
    assert runs(tmp_path / "mlflow.db") > 0
    assert repository.head() == answers.revision  # tracked, not scored again
