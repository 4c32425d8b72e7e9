"""`regrade score` without a configured Prefect server starts none."""

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
