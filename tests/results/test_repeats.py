"""Several answers to each question: avg@k with its error, pass@k and maj@k, wherever a person reads results."""

import html
import json

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.cli.terminal import print_blocks
from regrade.results.page import blocks
from regrade.results.results import Evaluation, score_result
from regrade.results.tables import headline
from regrade.scoring.score import score_answers
from regrade.settings import SamplingParams
from regrade.stats.metrics import further_averages
from regrade.text.markdown import markdown
from tests.builders import row
from tests.stored import publish, result_of, score

REPEATS = 4
RIGHT = [4, 4, 3, 3, 2, 1, 1, 0]
"""Right answers of the 4 to each question; the wrong ones are all equal."""
AVERAGE = "avg@4 56.2 ± 13.2 %"
FURTHER = "pass@4 87.5 ± 12.5 %, maj@4 62.5 ± 18.3 %"


@pytest.fixture
def answers(repository: LocalRepository) -> AnswerSet:
    rows = [
        row(number, "" if repeat < right else "#### 99", repeat=repeat)
        for number, right in enumerate(RIGHT)
        for repeat in range(REPEATS)
    ]
    sampling = SamplingParams(temperature=0.6)
    return publish(repository, rows, repeats=REPEATS, sampling=sampling)


@pytest.fixture
def evaluation(answers: AnswerSet) -> Evaluation:
    result = result_of(answers, score_result(score_answers(answers, "number"), None))
    return Evaluation(answer_sets=(result,), repository=answers.repository.uri)


def test_terminal_page_and_headline_show_the_average_pass_and_majority(
    evaluation: Evaluation, capsys: pytest.CaptureFixture[str]
):
    print_blocks(blocks(evaluation))
    table, page = capsys.readouterr().out, markdown(blocks(evaluation))

    assert AVERAGE in table
    assert FURTHER in table
    assert f"| sums | {AVERAGE} | number v3 | 32 |\n" in page.replace("\\", "")
    assert f"| sums | {FURTHER} | 0.0 % | 0.0 % | 0 |\n" in page.replace("\\", "")
    assert "clustered by question" in page
    assert headline(evaluation) == f"org/tiny: sums {AVERAGE} (n=32, {FURTHER})"


def test_without_repeats_neither_name_nor_column_is_shown(
    evaluation: Evaluation, capsys: pytest.CaptureFixture[str]
):
    (result,) = evaluation.answer_sets
    once = evaluation.model_copy(
        update={"answer_sets": (result.model_copy(update={"repeats": 1}),)}
    )

    print_blocks(blocks(once))

    for text in (capsys.readouterr().out, markdown(blocks(once)), headline(once)):
        assert "@" not in text
        assert "with repeats" not in text
        assert "56.2 ± 13.2 %" in text


def test_list_shows_them_too(
    repository: LocalRepository, answers: AnswerSet, capfd: pytest.CaptureFixture[str]
):
    score(answers)

    run(["list", "--answers", repository.uri])
    listed = capfd.readouterr().out
    run(["list", "--answers", repository.uri, "--json"])
    (entry,) = json.loads(capfd.readouterr().out)["answer_sets"]

    assert f"{AVERAGE}  32  {FURTHER}" in listed
    assert entry["repeats"] == REPEATS
    assert entry["scores"][0]["averages"]["pass_at_4"] == 0.875
    assert entry["scores"][0]["averages"]["majority_accuracy"] == 0.625


def test_the_card_of_the_repository_names_the_average(
    repository: LocalRepository, answers: AnswerSet
):
    score(answers)

    card = repository.fetch("README.md", str(repository.head())).read_text()

    assert "avg@4: 56.25 ± 13.15 % (n = 32)" in html.unescape(card)


def test_pass_at_k_is_that_of_the_largest_k_that_was_scored():
    metrics = {"pass_at_1": 0.5, "pass_at_2": 0.6, "pass_at_4": 0.7, "majority_accuracy": 0.4}

    assert further_averages(metrics, 8) == [("pass@4", 0.7, None), ("maj@8", 0.4, None)]
    assert further_averages({"pass_at_1": 0.5}, 8) == []
    assert further_averages(metrics, 1) == []
