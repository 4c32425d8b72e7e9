"""The report as an artifact of MLflow, linked on the flow run's page, and beside the verdict of a gate."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flows.evaluate_model import hand_on
from flows.scoring import Scorings
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.cli.output import Output
from regrade.cli.trigger.options import FollowOptions
from regrade.cli.trigger.run import _show, trigger_run
from regrade.comparing.gate import gate
from regrade.comparing.gate_report import GateReport
from regrade.orchestration.remote.outcome import Outcome
from regrade.pages.report import tracked
from regrade.pages.report.of_verdict import write_verdict_report
from regrade.pages.report.request import ReportRequest
from regrade.results.page import blocks
from regrade.results.results import AnswerSetResult, Evaluation
from regrade.scoring.score import score_answers
from regrade.settings import GateSettings
from regrade.settings.errors import SettingsError
from regrade.text.markdown import markdown
from regrade.tracking import track
from regrade.tracking.connection import artifact_url, run_url
from tasks.score import ScoredSet
from tests.comparing.sides import answer
from tests.stored import again, score, tracked_as


@pytest.fixture
def sides(tmp_path: Path) -> tuple[AnswerSet, AnswerSet]:
    repository = LocalRepository(tmp_path / "answers")
    base = answer(repository, "org/base", wrong=(1, 2), total=40)
    candidate = answer(repository, "org/candidate", wrong=(2, 3, 5, 7), total=40)
    for side in (base, candidate):
        score(side)
    return again(base), again(candidate)


def evaluation_run(answers: AnswerSet, uri: str) -> str:
    """Id of the evaluation's run."""
    file = score_answers(answers, "number").file
    return track(uri, [tracked_as(answers, file)]).parent_run_id


def artifact(uri: str, run_id: str, tmp_path: Path) -> str:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    assert "report.html" in {artifact.path for artifact in client.list_artifacts(run_id)}
    return Path(client.download_artifacts(run_id, "report.html", str(tmp_path))).read_text()


def test_a_baseline_of_other_settings_is_left_out_and_not_the_report(
    sides: tuple[AnswerSet, AnswerSet], monkeypatch: pytest.MonkeyPatch
):
    pages: list[str] = []
    monkeypatch.setattr(tracked, "log_page", lambda *given: pages.append(given[3]()))
    repository = sides[1].repository
    score(answer(repository, "org/other", n_shots=5, total=40))
    for base in ("org/base", "org/other"):
        names = (sides[1].manifest.answer_set_id,)
        request = ReportRequest(answers=repository.uri, names=names, base=base)
        tracked.log_report("sqlite:///none.db", "run", request)
    assert ["What changed" in page for page in pages] == [True, False]


def test_a_report_is_made_again_only_if_its_request_or_the_stored_answers_changed(
    sides: tuple[AnswerSet, AnswerSet], mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
):
    made: list[ReportRequest] = []
    monkeypatch.setattr(
        "regrade.pages.report.page.html_report", lambda *given: made.append(given[0]) or "a page"
    )
    uri = f"sqlite:///{mlflow_database}"
    run_id = evaluation_run(sides[1], uri)
    request = ReportRequest(
        answers=sides[1].repository.uri, names=(sides[1].manifest.answer_set_id,)
    )
    counts = []
    for asked in (request, request, replace(request, base="org/base")):
        tracked.log_report(uri, run_id, asked)
        counts.append(len(made))
    score(answer(sides[1].repository, "org/later", total=40))
    tracked.log_report(uri, run_id, request)
    assert [*counts, len(made)] == [1, 1, 2, 3]
    monkeypatch.setenv("REGRADE_VIEW_URL", "https://view.example")
    tracked.log_report(uri, run_id, request)  # with links
    assert len(made) == 4


@pytest.mark.slow
def test_a_flow_adds_the_report_and_its_page_links_to_it(
    sides: tuple[AnswerSet, AnswerSet], tmp_path: Path, mlflow_database: Path
):
    uri = f"sqlite:///{mlflow_database}"
    answers = sides[1]
    set_id = answers.manifest.answer_set_id
    scorings = Scorings([ScoredSet(answers)], (), {}, answers.revision)
    scorings.tracked.parents[set_id] = run_id = evaluation_run(answers, uri)
    scorings.tracked.urls[set_id] = "http://127.0.0.1:5000/#/experiments/1/runs/abc?workflowType=x"
    settings = GateSettings(baseline="org/base", max_drop=8)
    hand_on(scorings, uri, settings)
    assert "What changed against org/base" in artifact(uri, run_id, tmp_path)
    judged = gate("org/candidate", settings, answers=answers.repository.uri)
    hand_on(scorings, uri, settings, judged)
    page = artifact(uri, run_id, tmp_path)
    begins = page.partition("<h1")[2].partition("<h2")[0]
    assert judged.verdict in begins
    assert "org/base" in begins
    assert page.index("<h1") < page.index("Results")
    url = "http://127.0.0.1:5000/#/experiments/1/runs/abc/artifacts/report.html?workflowType=x"
    assert scorings.report_urls == {set_id: url}
    result = AnswerSetResult(
        benchmark="sums",
        model="org/candidate",
        answer_set_id=set_id,
        revision=answers.revision,
        url=None,
        rows=40,
        expected_rows=40,
        generated=0,
        seconds={},
        report_url=url,
    )
    page = markdown(blocks(Evaluation(answer_sets=(result,), repository="x")))
    assert f"[report]({url})" in page


def test_a_report_that_cannot_be_made_is_a_warning(
    sides: tuple[AnswerSet, AnswerSet], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    answers = sides[1]
    scorings = Scorings([ScoredSet(answers)], (), {}, answers.revision)
    scorings.tracked.parents[answers.manifest.answer_set_id] = "no such run"
    uri = f"sqlite:///{tmp_path / 'no' / 'such' / 'mlflow.db'}"
    with caplog.at_level(logging.WARNING):
        hand_on(scorings, uri, GateSettings(baseline="org/none"))
    assert "no report in MLflow" in caplog.text
    assert scorings.report_urls == {}


def test_without_a_server_there_is_no_link():
    assert artifact_url(run_url("sqlite:///x.db", "1", "abc"), "report.html") is None


def test_a_gate_writes_the_report_of_what_it_judged(
    sides: tuple[AnswerSet, AnswerSet], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    uri, html = sides[0].repository.uri, tmp_path / "out" / "regrade.html"
    answer(LocalRepository(tmp_path / "answers"), "org/candidate", right=3, total=50, n_shots=2)
    given = [sides[1].manifest.answer_set_id, "--baseline", "org/base", "--answers", uri]
    with pytest.raises(SystemExit) as ended:
        run(["gate", *given, "--max-drop", "8", "--html", str(html), "--quiet"])
    assert ended.value.code == 2  # too few questions for a verdict
    page = html.read_text()
    assert "What changed against org/base" in page
    assert sides[1].manifest.answer_set_id in page
    assert page.count("right to wrong</span>") == 3


def test_the_report_of_a_gate_has_the_scorer_and_the_differences_that_it_accepted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    repository = LocalRepository(tmp_path / "answers")
    for model, shots in (("org/base", 0), ("org/candidate", 2)):
        score(answer(repository, model, wrong=(1,), total=50, n_shots=shots), "exact")
    settings = GateSettings(baseline="org/base", max_drop=8, allow=("few_shot",))
    judged = gate("org/candidate", settings, answers=repository.uri, benchmarks=(), scorer="exact")
    html = tmp_path / "regrade.html"
    write_verdict_report(html, judged)
    page = html.read_text()
    assert "both sides scored by exact v" in page
    assert "allowed difference" in page
    assert "number v" not in page


def test_a_verdict_stands_without_its_report(
    sides: tuple[AnswerSet, AnswerSet],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    folder = tmp_path / "reports"

    def judge_while_the_folder_goes(candidate: str, *args: Any, **options: Any) -> GateReport:
        judged = gate(candidate, *args, **options)
        folder.rmdir()
        folder.write_text("a file, not a folder")
        return judged

    monkeypatch.setattr("regrade.comparing.job.gate", judge_while_the_folder_goes)
    given = ["org/candidate", "--baseline", "org/base", "--answers", sides[0].repository.uri]
    with pytest.raises(SystemExit) as ended:
        run(["gate", *given, "--max-drop", "8", "--html", str(folder / "x.html")])
    assert ended.value.code == 2
    assert "is not written" in capfd.readouterr().err


def test_a_triggered_run_leaves_the_report_of_its_verdict(
    sides: tuple[AnswerSet, AnswerSet], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    settings = GateSettings(baseline="org/base", max_drop=8)
    judged = gate("org/candidate", settings, answers=sides[0].repository.uri, benchmarks=())
    html = tmp_path / "regrade.html"
    result = Outcome(
        deployment="evaluate-model",
        flow_run_id=uuid4(),
        name="a run",
        state="Completed",
        exit_code=judged.exit_code,
        gate=judged,
    )
    assert _show(result, FollowOptions(wait=True, html=html), Output(quiet=True)) == 2
    assert sides[1].manifest.answer_set_id in html.read_text()
    with pytest.raises(SettingsError, match="add `--wait`"):
        trigger_run("evaluate-model", {}, (), FollowOptions(wait=False, html=html), Output())
