"""Tables of judged results: uncalibrated, or corrected by people's labels, with signs of bias."""

import json
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.judging.bias import bias_of
from regrade.judging.labels.calibrate import calibrate
from regrade.results.bias import bias_lines, evaluation_lines
from regrade.results.page import blocks, other_table
from regrade.results.results import Evaluation, score_result
from regrade.results.tables import headline, score_table
from regrade.scoring.score import score_answers
from regrade.text.layout import compact
from regrade.text.markdown import markdown
from tests.comparing.sides import answer
from tests.judged import judge, judged_of
from tests.stored import result_of, tracked_as


def evaluation(answers: AnswerSet) -> Evaluation:
    scored = score_answers(answers, "judge")
    table = answers.score_table(scored.file)
    result = score_result(scored, None, calibrate(answers, scored.file), bias_of(answers, table))
    found = result_of(answers, result)
    return Evaluation(answer_sets=(found,), repository=answers.repository.uri)


def cell(found: Evaluation) -> str:
    [cell] = compact(score_table(found)).cells("by people's labels")
    return cell


def test_a_judged_result_says_uncalibrated_until_there_are_labels(
    repository: LocalRepository, tmp_path: Path
) -> None:
    found = evaluation(judged_of(repository, tmp_path, seed=0, labels=0, n=60))

    assert cell(found) == "uncalibrated"
    assert "uncalibrated" in headline(found)
    assert "uncalibrated" in markdown(blocks(found))


def test_a_labelled_result_shows_the_corrected_figure_its_interval_and_the_method(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = judged_of(repository, tmp_path, seed=1, labels=120)
    found = evaluation(judged)
    calibrated = found.answer_sets[0].scores[0].calibrated

    assert calibrated.method == "PPI++"
    assert cell(found) == calibrated.text
    assert "(PPI++, 120 labels)" in headline(found)


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


def test_mlflow_gets_the_corrected_figure_and_the_mark(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = judged_of(repository, tmp_path, seed=3, labels=60, n=80)
    [file] = judged.scores()
    calibrated = calibrate(judged, file)

    scoring = tracked_as(judged, file, calibration=calibrated.text, judged=calibrated.figures)

    assert scoring.results()["corrected"] == calibrated.value
    assert scoring.results()["corrected_low"] < calibrated.value
    assert "PPI++" in scoring.tags()["regrade.calibration"]


def test_a_judge_that_likes_long_answers_shows_it(repository: LocalRepository) -> None:
    answers = answer(repository, "org/a", right=40, total=80)
    # The wrong answers are shorter: "#### 41" instead of two lines.
    judged = judge(answers, lambda number, _: "A" if number < 40 else "B")
    [file] = judged.scores()

    bias = bias_of(judged, judged.score_table(file))

    assert bias.length.spearman.low > 0.5
    lines = list(bias_lines(bias, file.scale))
    assert lines[0].startswith("Spearman correlation of verdict and length: +")
    assert "mean verdict by quarter of length: 0.0 %" in lines[1]
    figures = bias.figures
    quarters = [figures[f"bias/length_quarter_{number}"] for number in range(1, 5)]
    assert quarters == [quarter.mean for quarter in bias.length.quarters]
    assert (quarters[0], quarters[-1]) == (0.0, 1.0)


def test_results_of_several_judges_name_the_judge(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = answer(repository, "org/a", right=40, total=80)
    found = [
        evaluation(judge(answers, lambda number, _: "A" if number < 40 else "B", model=model))
        for model in ("org/one", "org/two")
    ]
    sets = [result.answer_sets[0] for result in found]
    names = ("org/one", "org/two")
    both = Evaluation(
        answer_sets=tuple(
            entry.model_copy(update={"model": name, "judged": "org/a"})
            for entry, name in zip(sets, names, strict=True)
        ),
        repository=repository.uri,
    )

    told = [line.split(": ")[0] for line in evaluation_lines(both)]
    for titles in (told, compact(other_table(both)).cells("benchmark")):
        assert list(dict.fromkeys(titles)) == [
            f"judge:correct:sums · org/a (judge {name})" for name in names
        ]
    assert {row[0] for row in other_table(found[0]).rows} == {"judge:correct:sums"}


def test_a_judge_of_pairs_shows_which_place_it_prefers(repository: LocalRepository) -> None:
    base = answer(repository, "org/base", right=0, total=40)
    answers = answer(repository, "org/a", right=40, total=40)
    judged = judge(answers, lambda *_: "first", rubric="pairwise", baseline=base)
    [file] = judged.scores()

    lines = list(bias_lines(bias_of(judged, judged.score_table(file)), file.scale))

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
