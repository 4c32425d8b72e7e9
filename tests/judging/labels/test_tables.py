"""Tables of judged results: uncalibrated, or corrected by people's labels, with signs of bias."""

import json
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.cli.main import run
from regrade.judging.bias import bias_of
from regrade.results.bias import bias_lines
from tests.comparing.sides import answer
from tests.judged import judge, judged_of


@pytest.mark.parametrize(("labels", "said"), [(0, "uncalibrated"), (60, "PPI++, 60 labels")])
def test_list_and_show_say_if_a_judge_is_calibrated(
    repository: LocalRepository,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    labels: int,
    said: str,
) -> None:
    judged = judged_of(
        repository,
        tmp_path,
        seed=2,
        labels=labels,
        n=80,
        model="org/llama-a",
        judge_model="lab/llama-7b",
    )

    assert run(["list", "--answers", repository.uri]) == 0
    listed = capfd.readouterr().out
    assert run(["show", judged.manifest.answer_set_id, "--answers", repository.uri]) == 0
    shown = capfd.readouterr().out
    assert run(["list", "--answers", repository.uri, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)

    assert shown.startswith("org/llama-a (judge lab/llama-7b) · judge:correct:")
    assert said in listed
    assert "judge of one family" in listed  # by their names
    assert f"by people's labels: {said}" in shown or said in shown
    texts = [s["calibration"]["text"] for entry in document["answer_sets"] for s in entry["scores"]]
    assert any(said in text for text in texts)


def test_a_judge_that_likes_long_answers_shows_it(repository: LocalRepository) -> None:
    answers = answer(repository, "org/a", right=40, total=80)
    # The wrong answers are shorter: "#### 41" instead of two lines.
    judged = judge(answers, lambda number, _: "A" if number < 40 else "B")
    [file] = judged.scores()

    bias = bias_of(judged, judged.score_table(file.label))

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

    lines = list(bias_lines(bias_of(judged, judged.score_table(file.label)), file.scale))

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
