"""The address of an answer in the team's viewer is printed beside each mention of it, and leads to its page."""

import json
import re
from pathlib import Path

import pytest

from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.comparing import verdict_text
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.gate import gate
from regrade.comparing.text import blocks as comparison_page
from regrade.comparing.together import compare_sides
from regrade.results.page import blocks
from regrade.results.results import Evaluation, score_result
from regrade.scoring.score import score_answers
from regrade.settings import GateSettings
from regrade.text.markdown import markdown
from tests.comparing.sides import answer
from tests.pages.viewer.reading import Reader
from tests.stored import again, result_of, score, tracked_as

URL = "https://eval.example.org/view"


@pytest.fixture
def sides(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> tuple[AnswerSet, AnswerSet]:
    """A baseline and a candidate in the repository that the team's viewer shows."""
    base = answer(reader.repository, "org/base", wrong=(1, 2), total=40)
    candidate = answer(reader.repository, "org/candidate", wrong=(2, 3), total=40)
    for side in (base, candidate):
        score(side)
    monkeypatch.setenv("REGRADE_VIEW_URL", URL)
    monkeypatch.setenv("REGRADE_ANSWERS", reader.repository.uri)
    return again(base), again(candidate)


def addresses(text: str) -> list[str]:
    return re.findall(re.escape(URL) + r"[^\s)]*", text)


def open_all(reader: Reader, found: list[str], least: int) -> None:
    """Every address leads to a page of the viewer."""
    assert len(found) >= least
    under = Reader(reader.repository.folder, root="/view")
    for address in found:
        assert under.get(address.removeprefix(URL)).status == 200, address


def test_show_names_the_address_of_each_answer(
    reader: Reader, sides: tuple[AnswerSet, AnswerSet], capfd: pytest.CaptureFixture[str]
):
    assert run(["show", sides[1].manifest.answer_set_id, "--wrong"]) == 0
    out, err = capfd.readouterr()
    open_all(reader, addresses(out), 2)
    assert f"regrade view {reader.repository.uri} {sides[1].manifest.answer_set_id}" in err
    assert run(["show", sides[1].manifest.answer_set_id, "--wrong", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    open_all(reader, [answer["address"] for answer in document["answers"]], 2)


def test_compare_names_the_comparison_and_each_example(
    reader: Reader, sides: tuple[AnswerSet, AnswerSet], capfd: pytest.CaptureFixture[str]
):
    assert run(["compare", "org/base", "org/candidate"]) == 0
    open_all(reader, addresses(capfd.readouterr().out), 3)
    options = CompareOptions(examples=2)
    compared = compare_sides(
        "org/base", "org/candidate", answers=reader.repository.uri, options=options
    )
    open_all(reader, addresses(markdown(comparison_page(compared.comparisons))), 3)


def test_the_report_of_a_gate_names_the_comparison(
    reader: Reader,
    sides: tuple[AnswerSet, AnswerSet],
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
):
    settings = GateSettings(baseline="org/base", max_drop=30)
    report = gate(
        "org/candidate", settings, answers=reader.repository.uri, benchmarks=(), examples=1
    )
    open_all(reader, addresses(markdown(verdict_text.blocks(report))), 2)
    with pytest.raises(SystemExit):
        run(["gate", "org/candidate", "--baseline", "org/base", "--max-drop", "30"])
    open_all(reader, addresses(capfd.readouterr().out), 1)


def test_the_page_of_a_flow_run_names_the_answers(
    reader: Reader, sides: tuple[AnswerSet, AnswerSet]
):
    answers = sides[0]
    result = result_of(answers, score_result(score_answers(answers, "number"), None))
    page = markdown(blocks(Evaluation(answer_sets=(result,), repository=reader.repository.uri)))
    open_all(reader, addresses(page), 2)


def test_a_run_in_mlflow_has_the_address_as_a_tag(
    reader: Reader, sides: tuple[AnswerSet, AnswerSet], monkeypatch: pytest.MonkeyPatch
):
    answers = sides[0]
    file = score_answers(answers, "number").file
    scoring = tracked_as(answers, file)
    open_all(reader, [scoring.tags()["regrade.view"]], 1)
    monkeypatch.setenv("REGRADE_ANSWERS", "hf://datasets/team/other")
    assert "regrade.view" not in scoring.tags()
