"""`regrade score` without a configured Prefect server starts none."""

import subprocess
import sys
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from tests.command_line import regrade
from tests.stored import again, numbers, publish


def test_scoring_publishes_and_tracks_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    answers = publish(LocalRepository(tmp_path / "answers"), numbers(0, 4))
    home = tmp_path / "prefect"
    folders = {"REGRADE_LOGS": str(tmp_path / "logs"), "PREFECT_HOME": str(home)}

    where = ("--answers", answers.repository.uri, "--json")
    first = regrade("score", *where, **folders)
    second = regrade("score", *where, **folders)

    assert first.code == second.code == 0, first.err
    (result,) = first.document["answer_sets"]
    assert result["scores"][0]["metrics"]["accuracy"] == 1.0
    assert result["mlflow_run_id"] is not None
    assert "score" in result["seconds"]
    assert not list(home.rglob("*.db"))
    assert [file.label for file in again(answers).scores()]
    (before,) = second.document["answer_sets"]
    assert "score" not in before["seconds"]
    assert "(scored before)" in second.err


def test_scoring_without_a_server_imports_neither_prefect_nor_mlflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in (("PREFECT_HOME", "prefect"), ("REGRADE_LOGS", "logs")):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    answers = publish(LocalRepository(tmp_path / "answers"), numbers(0, 4))
    code = (
        "import sys; from regrade.cli.main import run; "
        f"assert run(['score', '--answers', {answers.repository.uri!r}]) == 0; "
        "print([name for name in ('prefect', 'mlflow', 'matplotlib') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"
