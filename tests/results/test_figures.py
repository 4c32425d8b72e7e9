"""A figure is declared once, and every view has it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import regrade
from regrade.answers.figures import (
    FIGURES,
    Figure,
    figures_in,
    figures_line,
    figures_of,
    metrics_of,
)
from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.cli.main import run
from regrade.comparing.comparison import CompareOptions, compare_sets
from regrade.comparing.text import remarks
from regrade.exchange.exporting.every_eval_ever import export_every_eval_ever
from regrade.exchange.exporting.inspect_log import export_inspect
from regrade.pages.report.gathering import gather
from regrade.pages.report.page import html_report, markdown_report
from regrade.pages.report.request import ReportRequest
from regrade.results.page import blocks
from regrade.results.results import Evaluation
from regrade.stats.speed import Speed
from regrade.text.markdown import markdown
from regrade.tuning.sweep.measuring import measure
from regrade.tuning.sweep.text import blocks as sweep_blocks
from tests.builders import session
from tests.comparing.sides import answer
from tests.pages.viewer.reading import Page, Reader
from tests.stored import again, score
from tests.tuning.sweep.made import point, sweep

pytestmark = pytest.mark.usefixtures("mlflow_database")

MADE_UP = Figure("halves", "halves of answers", "", lambda manifest, _: manifest.rows / 2, ",.2f")


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Result]:
    answers = answer(LocalRepository(tmp_path / "answers"), "org/model", right=2, total=5)
    file = score(answers)
    FIGURES.append(MADE_UP)
    yield Result(again(answers), file)
    FIGURES.remove(MADE_UP)


def printed(capfd: pytest.CaptureFixture[str], *command: str | Path) -> str:
    assert run([str(word) for word in command]) == 0
    return capfd.readouterr().out


def test_a_figure_that_is_declared_shows_in_every_view(
    stored: Result, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    folder, set_id = stored.answers.repository.uri, stored.answers.manifest.answer_set_id
    at = ("--answers", folder)
    mlflow = f"sqlite:///{tmp_path / 'mlflow.db'}"

    (listed,) = json.loads(printed(capfd, "list", *at, "--json"))["answer_sets"]
    (frame,) = regrade.open(folder).sets().to_dict("records")
    screen = printed(capfd, "score", *at, "--tracking-uri", mlflow)
    document = printed(capfd, "score", *at, "--tracking-uri", mlflow, "--json")
    scored = Evaluation.model_validate_json(document)
    report = gather(ReportRequest(folder))
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        tracked = database.execute(
            "select value from latest_metrics where key = 'generation/halves'"
        ).fetchall()

    measured = measure(stored, stored, gpus=1)
    swept = sweep(point(0, 1).model_copy(update={"benchmarks": (measured,)}))
    comparison = compare_sets(stored.answers, stored.answers, CompareOptions()).comparison
    now = datetime.now(UTC)
    [log] = export_inspect(stored, tmp_path, now)
    with ZipFile(log) as exported:
        header = json.loads(exported.read("header.json"))
    [result, _] = export_every_eval_ever(
        stored, tmp_path, now, organization="org", relationship="other"
    )
    details = json.loads(result.read_text())["source_metadata"]["additional_details"]

    assert header["eval"]["metadata"]["halves"] == 2.5
    assert details["halves"] == "2.5"
    assert listed["halves"] == frame["halves"] == 2.5
    assert measured.figures["halves"] == comparison.candidate.figures["halves"] == 2.5
    assert json.loads(printed(capfd, "show", set_id, *at, "--json"))["figures"]["halves"] == 2.5
    assert tracked == [(2.5,)]
    assert scored.answer_sets[0].figures["halves"] == 2.5
    texts = {
        "list": printed(capfd, "list", *at),
        "show": printed(capfd, "show", set_id, *at),
        "compare": "\n".join(remarks(comparison)),
        "sweep": markdown(sweep_blocks(swept, {})),
        "viewer": Reader(Path(folder)).page("/").text,
        "report": markdown_report(report),
        "html": Page(200, html_report(report), None).text,
        "page": markdown(blocks(scored)),
        "screen": screen,
    }
    for view, text in texts.items():
        assert "halves of answers" in " ".join(text.split()), view
        assert "2.50" in text, view


def test_tables_leave_out_figures_that_are_not_for_them():
    assert {"load_seconds", "prompt_tokens"} <= {figure.name for figure in figures_in("report")}
    assert figures_in("list") == []


def test_a_line_of_two_sides_has_the_figures_that_both_know():
    known = {"seconds": 6.0, "completion_tokens": 1200.0}

    assert figures_line("compare", known) == "generate 6.0 s, completion tokens 1,200"
    assert figures_line("compare", known, {"seconds": 8.0}) == "generate 6.0 -> 8.0 s"
    assert figures_line("compare", known, {}) == ""


def test_what_is_not_known_is_none(tmp_path: Path):
    imported = answer(LocalRepository(tmp_path / "answers"), "org/model", right=2, total=5).manifest

    assert set(figures_of(imported, None).values()) == {None}
    assert metrics_of(imported, None) == {}


def test_a_set_that_shared_its_engine_has_seconds_and_tokens_but_no_speed(tmp_path: Path):
    manifest = answer(LocalRepository(tmp_path / "answers"), "org/model", right=2, total=5).manifest

    def figures(**changes: Any) -> dict[str, float | None]:
        one = session(id=None, rows=5, generate_seconds=2.0, completion_tokens=10, **changes)
        return figures_of(manifest.model_copy(update={"sessions": (one,)}), None)

    for alone in (figures(speed=Speed(requests=5)), figures()):  # killed before it measured
        assert alone["tokens_per_second"] == 5.0
    measured = (figures(speed=Speed(requests=n), sets=2) for n in (5, 6))
    for shared in (*measured, figures(sets=2), figures(speed=Speed(requests=6))):
        assert shared["tokens_per_second"] is None
        assert (shared["seconds"], shared["completion_tokens"]) == (2.0, 10)
