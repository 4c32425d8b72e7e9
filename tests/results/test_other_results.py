"""Results beside the accuracy are on every page that a person reads, and in MLflow."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.cli.terminal import print_blocks
from regrade.results.page import MOST_ROWS, blocks, other_table
from regrade.results.results import Evaluation, score_result
from regrade.scoring.score import score_answers
from regrade.stats.named import Aggregate, NamedMetric
from regrade.text.markdown import markdown
from tests.builders import row
from tests.stored import publish, result_of, tracked_as


@pytest.fixture
def answers(tmp_path: Path) -> AnswerSet:
    return publish(LocalRepository(tmp_path / "answers"), [row(n) for n in range(4)])


def with_results(answers: AnswerSet, aggregates: tuple[Aggregate, ...]) -> ScoreFile:
    file = score_answers(answers, "number").file
    named = {"prompt_strict": NamedMetric(value=0.75, stderr=0.25, n=4)}
    summary = file.summary.model_copy(update={"metrics": named})
    return file.model_copy(update={"summary": summary, "aggregates": aggregates})


def evaluation(answers: AnswerSet, *aggregates: Aggregate) -> Evaluation:
    scored = Result(answers, with_results(answers, aggregates), None)
    result = result_of(answers, score_result(scored, None))
    return Evaluation(answer_sets=(result,), repository=answers.repository.uri)


PERPLEXITY = Aggregate(subset="wikitext", name="word_perplexity,none", value=24.25, n=62)


def test_terminal_and_page_show_them_on_their_own_scale(
    answers: AnswerSet, capsys: pytest.CaptureFixture[str]
):
    both = evaluation(answers, PERPLEXITY)
    print_blocks(blocks(both))
    table, page = capsys.readouterr().out, markdown(blocks(both))

    for text in (table, page):
        assert "0.7500 ± 0.2500" in text
        assert "24.2500" in text
    assert "word_perplexity,none" in table


def test_a_long_list_ends_with_the_number_of_those_left_out(answers: AnswerSet):
    many = (Aggregate(subset=f"part {n}", name="acc", value=0.5, n=1) for n in range(MOST_ROWS + 2))

    rows = other_table(evaluation(answers, *many)).rows

    assert len(rows) == MOST_ROWS + 1
    assert rows[-1][2] == "3 more: `--json`"


def test_mlflow_has_them_under_names_that_it_accepts(answers: AnswerSet):
    results = tracked_as(answers, with_results(answers, (PERPLEXITY,))).results()

    assert results["other/prompt_strict"] == 0.75
    assert results["other/prompt_strict_stderr"] == 0.25
    assert results["other/wikitext/word_perplexity_none"] == 24.25
    assert "other/wikitext/word_perplexity_none_stderr" not in results
