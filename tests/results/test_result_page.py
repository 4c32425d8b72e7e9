"""The page of a result in Prefect: lowest subsets, next commands, models of one name; and the page of a verdict."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.comparing.gate import gate
from regrade.comparing.verdict_text import COLUMNS, gate_markdown
from regrade.results.result_page import markdown_report
from regrade.results.results import AnswerSetResult, Evaluation, ScoreResult, score_result
from regrade.results.tables import cost_rows, headline, short_headline, table_rows
from regrade.scoring.score import score_answers
from regrade.settings import GateSettings
from regrade.stats.scale import Scale
from regrade.text.markdown import page_tables
from tests.builders import row
from tests.comparing.sides import answer
from tests.stored import publish, score


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    """Seven subsets of four answers; of subset n, n answers are right, at most four."""
    rows = [
        row(4 * subset + n, "" if n < subset else "#### 99", subset=f"part {subset}")
        for subset in range(7)
        for n in range(4)
    ]
    answers = publish(LocalRepository(tmp_path / "answers"), rows)
    result = AnswerSetResult(
        benchmark="sums",
        model="final",
        model_revision="a" * 40,
        answer_set_id=answers.manifest.answer_set_id,
        revision="c" * 40,
        url=None,
        rows=28,
        expected_rows=28,
        generated=0,
        scores=(score_result(score_answers(answers, "number"), None),),
        seconds={"track": 0.5},
    )
    return Evaluation(answer_sets=(result,), repository="/answers")


def test_the_page_names_the_lowest_subsets_and_how_to_read_the_answers(evaluation: Evaluation):
    page = markdown_report(evaluation, None)

    lowest = [line for line in page.splitlines() if "| part " in line]
    assert [line.split(" | ")[1] for line in lowest] == [f"part {n}" for n in range(5)]
    assert lowest[1].startswith("| sums | part 1 | 25.0 ± 25.0 % | 4")
    set_id = evaluation.answer_sets[0].answer_set_id
    assert f"regrade view /answers {set_id}" in page


def test_the_name_of_a_run_is_its_result(evaluation: Evaluation):
    assert short_headline(evaluation) == "final: sums 64.3 ± 9.2 %"
    assert short_headline(evaluation.model_copy(update={"answer_sets": ()})) == ""


def test_grades_are_named_on_their_scale(evaluation: Evaluation):
    (answers,) = evaluation.answer_sets
    (scored,) = answers.scores
    grades = Scale(low=1, high=3, unit="")
    metrics = scored.metrics | {"accuracy": 2.5, "accuracy_stderr": 0.25}
    graded = scored.model_copy(update={"scale": grades, "metrics": metrics})
    sets = (answers.model_copy(update={"scores": (graded,)}),)
    assert (
        short_headline(evaluation.model_copy(update={"answer_sets": sets}))
        == "final: sums 2.50 ± 0.25"
    )


def test_answers_without_a_score_are_counted(evaluation: Evaluation):
    (answers,) = evaluation.answer_sets
    sets = (answers.model_copy(update={"scores": (), "expected_rows": 1400}),)
    unscored = evaluation.model_copy(update={"answer_sets": sets})
    assert short_headline(unscored) == "final: sums 28 of 1,400 answers"
    assert headline(unscored) == short_headline(unscored)


def test_two_models_of_one_name_are_two_in_the_table(evaluation: Evaluation):
    (one,) = evaluation.answer_sets
    other = one.model_copy(update={"model_revision": "b" * 40, "answer_set_id": "0" * 16})
    both = evaluation.model_copy(update={"answer_sets": (one, other)})

    assert [cells[0] for cells in table_rows(evaluation)] == ["final"]
    assert [cells[0] for cells in table_rows(both)] == ["final@aaaaaaaa", "final@bbbbbbbb"]
    page = markdown_report(both, None)
    assert "| model | benchmark |" in page
    assert "| sums · final@bbbbbbbb | part 0 |" in page  # lowest subsets
    assert "- sums · final@bbbbbbbb: answers `0000000000000000`" in page


def test_wrong_answers_are_linked_once_they_are_scored(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_VIEW_URL", "http://view.test")
    monkeypatch.setenv("REGRADE_ANSWERS", evaluation.repository)
    (answers,) = evaluation.answer_sets
    unscored = Evaluation(
        answer_sets=(answers.model_copy(update={"scores": ()}),), repository=evaluation.repository
    )
    address = f"](http://view.test/sets/{answers.answer_set_id}"
    assert f"{address}?verdict=wrong)" in markdown_report(evaluation, None)
    assert f"{address})" in markdown_report(unscored, None)
    assert "verdict=wrong" not in markdown_report(unscored, None)


def test_a_single_model_stands_above_the_table_which_then_fits_the_page(evaluation: Evaluation):
    page = markdown_report(evaluation, None)
    assert page.startswith(
        "Model: final\n\n| benchmark | scorer | accuracy | n | unparsed | truncated | failed |"
    )
    assert "| sums | number v2 | 64.3 ± 9.2 % | 28 |" in page


def test_stages_that_a_run_did_not_need_have_no_seconds(evaluation: Evaluation):
    assert list(cost_rows(evaluation)) == [("sums", "", "", "", "", "0.5", "")]


def test_few_subsets_are_not_ranked(evaluation: Evaluation):
    (answers,) = evaluation.answer_sets
    (scored,) = answers.scores
    few: ScoreResult = scored.model_copy(update={"lowest": ()})
    page = markdown_report(
        Evaluation(
            answer_sets=(answers.model_copy(update={"scores": (few,)}),), repository="/answers"
        ),
        None,
    )
    assert "Lowest subsets" not in page


def test_a_verdicts_page_names_the_baselines_model_and_the_level_in_tables_that_fit(
    tmp_path: Path,
):
    repository = LocalRepository(tmp_path / "answers")
    for model, right in (("org/base", 390), ("org/new", 320)):
        score(answer(repository, model, right=right))
    report = gate("org/new", GateSettings(baseline="org/base"), answers=repository.uri)
    page = gate_markdown(report.model_copy(update={"base": "last-good"}))

    assert "against baseline last-good (org/base)." in page.replace("\\", "")
    assert "against baseline org/base." in gate_markdown(report).replace("\\", "")
    assert "(90 %)" in page
    assert "&#60;" not in page
    headers = [line for line in page.splitlines() if line.startswith("| benchmark |")]
    assert headers == [
        "| benchmark | verdict | baseline | candidate | difference | accepted drop |",
        "| benchmark | interval | right to wrong | wrong to right | would find | n |",
    ]
    shown = {name for line in headers for name in line.strip("| ").split(" | ")}
    assert shown == {*COLUMNS}


def test_a_table_that_is_too_wide_for_the_page_is_continued_in_a_second_one():
    columns = ("benchmark", "scorer", "accuracy", "n")
    groups = (columns[:2], columns[2:3], columns[3:])

    def heads(scorer: str, accuracy: str) -> list[str]:
        lines = page_tables(groups, columns, [("sums", scorer, accuracy, "9")], key=columns[:1])
        return [line for line in lines if "benchmark" in line]

    assert heads("number", "50 %") == ["| benchmark | scorer | accuracy | n |"]
    assert heads("x" * 75, "50 %") == ["| benchmark | scorer |", "| benchmark | accuracy | n |"]
    assert heads("x" * 60, "x" * 80) == [
        "| benchmark | scorer |",
        "| benchmark | accuracy |",
        "| benchmark | n |",
    ]
