"""`regrade score` without a configured Prefect server starts none."""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from regrade.answers.local import LocalRepository
from regrade.settings.errors import TrackingError
from regrade.settings.project_folder import make_flows_importable
from tests.command_line import run, run_here
from tests.stored import again, numbers, publish

TWICE = """
import sys
from regrade.cli.main import run
for _ in range(2):
    assert run(["score", "--answers", sys.argv[1], "--json"]) == 0
    print("\\0")
print([name for name in ("prefect", "mlflow", "matplotlib") if name in sys.modules])
"""


@pytest.mark.usefixtures("mlflow_database")
def test_scoring_publishes_and_tracks_without_a_server_and_imports_neither_prefect_nor_mlflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    answers = publish(LocalRepository(tmp_path / "answers"), numbers(0, 4))
    home = tmp_path / "prefect"
    folders = {"REGRADE_LOGS": str(tmp_path / "logs"), "PREFECT_HOME": str(home)}

    ran = run([sys.executable, "-c", TWICE, answers.repository.uri], 280, folders)

    assert ran.code == 0, ran.err
    first, second, imported = ran.out.split("\0\n")
    (result,) = json.loads(first)["answer_sets"]
    assert result["scores"][0]["metrics"]["accuracy"] == 1.0
    assert result["mlflow_run_id"] is not None
    assert "score" in result["seconds"]
    assert not list(home.rglob("*.db"))
    assert [file.label for file in again(answers).scores()]
    (before,) = json.loads(second)["answer_sets"]
    assert "score" not in before["seconds"]
    assert before["mlflow_run_id"] == result["mlflow_run_id"]
    assert ran.err.count("(scored before)") == 1
    assert imported == "[]\n"


def scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *form: str
) -> tuple[str, str, str, int]:
    """Score answers, with a tracker that fails; return stdout before it was asked, stdout, stderr, and the exit code."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("REGRADE_LOGS", str(tmp_path / "logs"))
    publish(LocalRepository(tmp_path / "answers"), numbers(0, 4))
    out, err, before = io.StringIO(), io.StringIO(), list[str]()

    def fail(uri: str, *_: object) -> NoReturn:
        before.append(out.getvalue())
        raise TrackingError(uri, "it fell silent")

    make_flows_importable()
    monkeypatch.setattr("flows.scoring.track_scorings", fail)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_here(["score", "--answers", str(tmp_path / "answers"), *form])
    return before[0], out.getvalue(), err.getvalue(), code


def test_a_result_is_printed_once_before_it_is_tracked_and_a_tracker_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before, out, err, code = scored(tmp_path, monkeypatch)

    assert "100.0 %" in before
    assert out == before
    assert "it fell silent" in err
    assert "tracks them when MLflow is back" in err
    assert code == 1


@pytest.mark.parametrize("form", ["--json", "--quiet"])
def test_a_result_in_another_form_is_not_printed_before_it_is_tracked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
):
    before, out, _, _ = scored(tmp_path, monkeypatch, form)

    assert before == ""
    assert ("accuracy" in out) == (form == "--json")
