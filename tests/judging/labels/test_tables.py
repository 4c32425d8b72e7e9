"""Judged results: uncalibrated, and with signs of bias; `tests/golden` has their tables, also of labelled ones."""

from pathlib import Path

from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.cli.main import run
from regrade.judging.bias import bias_of
from regrade.results.bias import bias_lines
from tests.command_line import regrade
from tests.comparing.sides import answer
from tests.judged import judge, judged_of


def test_the_list_tells_a_judge_of_the_models_own_family(
    repository: LocalRepository, tmp_path: Path
) -> None:
    models = {"model": "org/llama-a", "judge_model": "lab/llama-7b"}
    judged_of(repository, tmp_path, seed=2, labels=0, n=80, **models)

    listed = regrade("list", "--answers", repository.uri).out

    assert "judge of one family" in listed  # by their names


def test_a_judge_that_likes_long_answers_shows_it(repository: LocalRepository) -> None:
    answers = answer(repository, "org/a", right=40, total=80)
    # The wrong answers are shorter: "#### 41" instead of two lines.
    judged = judge(answers, lambda number, _: "A" if number < 40 else "B")
    [file] = judged.scores()

    bias = bias_of(Result(judged, file))

    assert bias.length.spearman.low > 0.5
    lines = list(bias_lines(bias, file.scale))
    assert lines[0].startswith("Spearman correlation of verdict and length: +")
    assert "mean verdict by quarter of length: 0.0 %" in lines[1]
    figures = bias.figures
    quarters = [figures[f"bias/length_quarter_{number}"] for number in range(1, 5)]
    assert quarters == [quarter.mean for quarter in bias.length.quarters]
    assert (quarters[0], quarters[-1]) == (0.0, 1.0)


def test_a_judge_of_pairs_shows_which_place_it_prefers(repository: LocalRepository) -> None:
    base = answer(repository, "org/base", right=0, total=40)
    answers = answer(repository, "org/a", right=40, total=40)
    judged = judge(answers, lambda *_: "first", rubric="pairwise", baseline=base)
    [file] = judged.scores()

    lines = list(bias_lines(bias_of(Result(judged, file)), file.scale))

    assert file.summary.overall.accuracy == 0.5  # orders that disagree are ties
    assert lines[0].startswith(
        "the answer that stands first is preferred in 100.0 % of 80 verdicts"
    )
    assert lines[1].startswith("100.0 % of the pairs change their verdict with the order")


def test_a_report_says_if_a_judge_is_calibrated_and_shows_grades_as_they_are(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = answer(repository, "org/a", right=30, total=30)
    judged = judge(answers, lambda number, _: "123"[number % 3], rubric="accuracy_style")
    page, text = tmp_path / "report.html", tmp_path / "report.md"
    where = ["--answers", repository.uri]

    assert run(["report", judged.manifest.answer_set_id, str(page), *where]) == 0
    assert run(["report", judged.manifest.answer_set_id, str(text), *where]) == 0

    for content in (page.read_text(), text.read_text()):
        assert "2.000 ± 0.1" in content
        assert "uncalibrated" in content
        assert "200.00" not in content
