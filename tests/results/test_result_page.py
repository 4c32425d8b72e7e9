"""The page of a result: lowest subsets, next commands, models of one name, links."""

from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.results.page import blocks
from regrade.results.results import Evaluation, score_result
from regrade.results.speeds import speed_lines
from regrade.results.tables import headline, lowest_table, score_table, short_headline, titles
from regrade.scoring.score import score_answers
from regrade.stats.scale import Scale
from regrade.stats.speed import Goodput, Speed
from regrade.text.markdown import markdown
from tests.builders import row
from tests.stored import publish, result_of


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    """Seven subsets of four answers; of subset n, n answers are right, at most four."""
    rows = [
        row(4 * subset + n, "" if n < subset else "#### 99", subset=f"part {subset}")
        for subset in range(7)
        for n in range(4)
    ]
    answers = publish(LocalRepository(tmp_path / "answers"), rows)
    score = score_result(score_answers(answers, "number"), None)
    result = result_of(
        answers, score, model="final", model_revision="a" * 40, seconds={"track": 0.5}
    )
    return Evaluation(answer_sets=(result,), repository="/answers")


def changed(evaluation: Evaluation, **changes: Any) -> Evaluation:
    """The same result with other fields of its answer set."""
    (answers,) = evaluation.answer_sets
    return evaluation.model_copy(update={"answer_sets": (answers.model_copy(update=changes),)})


def test_the_five_lowest_subsets_are_named(evaluation: Evaluation):
    assert [cells[1] for cells in lowest_table(evaluation).rows] == [f"part {n}" for n in range(5)]


def test_the_name_of_a_run_is_its_result(evaluation: Evaluation):
    assert short_headline(evaluation) == "final: sums 64.3 ± 9.2 %"
    assert short_headline(evaluation.model_copy(update={"answer_sets": ()})) == ""


def test_each_result_of_several_models_stands_by_its_model(evaluation: Evaluation):
    (one,) = evaluation.answer_sets
    (score,) = one.scores
    worse = score.model_copy(update={"metrics": score.metrics | {"accuracy": 0.25}})
    other = {"model": "an-earlier", "answer_set_id": "0" * 16, "scores": (worse,)}
    both = evaluation.model_copy(update={"answer_sets": (one, one.model_copy(update=other))})
    assert short_headline(both) == ("final: sums 64.3 ± 9.2 %; an-earlier: sums 25.0 ± 9.2 %")


def test_grades_are_named_on_their_scale(evaluation: Evaluation):
    (scored,) = evaluation.answer_sets[0].scores
    grades = Scale(low=1, high=3, unit="")
    metrics = scored.metrics | {"accuracy": 2.5, "accuracy_stderr": 0.25}
    graded = scored.model_copy(update={"scale": grades, "metrics": metrics})
    assert short_headline(changed(evaluation, scores=(graded,))) == "final: sums 2.50 ± 0.25"


def test_answers_without_a_score_are_counted(evaluation: Evaluation):
    unscored = changed(evaluation, scores=(), expected_rows=1400)
    assert short_headline(unscored) == "final: sums 28 of 1,400 answers"
    assert headline(unscored) == short_headline(unscored)


def test_two_models_of_one_name_are_two_in_the_table(evaluation: Evaluation):
    (one,) = evaluation.answer_sets
    other = one.model_copy(update={"model_revision": "b" * 40, "answer_set_id": "0" * 16})
    both = evaluation.model_copy(update={"answer_sets": (one, other)})

    assert [cells[0] for cells in score_table(evaluation).rows] == ["final"]
    assert [cells[0] for cells in score_table(both).rows] == ["final@aaaaaaaa", "final@bbbbbbbb"]
    page = markdown(blocks(both))
    assert "| model | benchmark |" in page
    assert "| sums · final@bbbbbbbb | part 0 |" in page  # lowest subsets
    assert "- sums · final@bbbbbbbb: answers `0000000000000000`" in page


def test_two_sets_of_one_model_and_benchmark_are_told_apart_by_their_ids(evaluation: Evaluation):
    speed = Speed(goodput=Goodput(limits={"e2el": 1.0}, answers=28, within=14))
    (one,) = changed(evaluation, speed=speed).answer_sets
    other = one.model_copy(update={"answer_set_id": "0" * 16})
    both = evaluation.model_copy(update={"answer_sets": (one, other)})

    assert {*titles(evaluation).values()} == {"sums"}
    assert titles(both)["0" * 16] == "sums · 00000000"
    lines = [line for line in speed_lines(both) if "goodput" in line]
    assert lines[1] == "sums · 00000000: goodput: 50.0 % of 28 answers within E2EL 1 s"


def test_wrong_answers_are_linked_once_they_are_scored(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_VIEW_URL", "http://view.test")
    monkeypatch.setenv("REGRADE_ANSWERS", evaluation.repository)
    address = f"](http://view.test/sets/{evaluation.answer_sets[0].answer_set_id}"
    assert f"{address}?verdict=wrong)" in markdown(blocks(evaluation))
    unscored = markdown(blocks(changed(evaluation, scores=())))
    assert f"{address})" in unscored
    assert "verdict=wrong" not in unscored
