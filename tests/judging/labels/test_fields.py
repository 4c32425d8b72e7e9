"""Labels of verdicts with several fields: accuracy and style, each with its own labels and figures."""

import json
from pathlib import Path

import pytest

from regrade.answers.labelfile import label_files
from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.calibrate import calibrate
from regrade.judging.labels.importing import new_labels, store_labels
from regrade.judging.labels.sheet import read_sheet, write_sheet
from regrade.judging.labels.task import open_tasks
from regrade.results.page import other_table
from regrade.results.results import Evaluation, score_result
from regrade.scoring.score import score_answers
from regrade.settings.errors import SettingsError
from tests.comparing.sides import answer
from tests.judged import fill, judge, rows_of
from tests.stored import again, result_of


@pytest.fixture
def judged(tmp_path: Path) -> AnswerSet:
    """Verdicts whose accuracy is 1, 2 or 3, and whose style is 2."""
    answers = answer(LocalRepository(tmp_path / "answers"), "org/a", total=60, right=60)
    return judge(answers, lambda number, _: str(1 + number % 3), rubric="accuracy_style")


def sheet(judged: AnswerSet, path: Path, **cells: str) -> Path:
    tasks = open_tasks(judged)
    write_sheet(path, tasks, tasks[0].sample(40, 0), 0, show_verdict=False)
    fill(path, [row | cells for row in rows_of(path)])
    return path


def read(judged: AnswerSet, path: Path) -> AnswerSet:
    tasks = open_tasks(judged)
    rows = read_sheet(path, tasks, "anna")
    for task in tasks:
        given = [row.given for row in rows if row.field == task.field]
        if new := new_labels(given, task, revise=False):
            store_labels(new, task, 0, 40)
    return again(judged)


def test_a_sheet_has_a_column_for_each_field(judged: AnswerSet, tmp_path: Path) -> None:
    tasks = open_tasks(judged)
    write_sheet(tmp_path / "shown.csv", tasks, tasks[0].sample(3, 0), 0, show_verdict=True)

    row = rows_of(tmp_path / "shown.csv")[0]

    assert {"label_accuracy", "label_style"} <= set(row)
    assert "label" not in row
    assert row["verdict_accuracy"] in ("1", "2", "3")
    assert row["verdict_style"] == "2"


def test_each_field_has_its_labels_its_agreement_and_its_corrected_figure(
    judged: AnswerSet, tmp_path: Path
) -> None:
    labelled = read(judged, sheet(judged, tmp_path / "l.csv", label_accuracy="2", label_style="3"))

    [file] = labelled.scores()
    found = calibrate(Result(labelled, file))

    style = found.fields["style"]
    assert (found.value, found.labelled, style.value, style.labelled) == (2.0, 40, 3.0, 40)
    assert style.agreement.labels == ("1", "2", "3")
    assert style.agreement.table[1] == (0, 0, 40)  # the judge says 2, people say 3
    assert found.figures["corrected/style"] == 3.0
    assert found.figures["corrected"] == 2.0


def test_labels_of_one_field_say_nothing_about_another(judged: AnswerSet, tmp_path: Path) -> None:
    labelled = read(judged, sheet(judged, tmp_path / "labels.csv", label_style="1"))

    [file] = labelled.scores()
    found = calibrate(Result(labelled, file))

    assert (found.text, found.labelled) == ("uncalibrated", 0)
    assert found.fields["style"].value == 1.0


def test_a_file_about_the_first_field_does_not_name_it(judged: AnswerSet, tmp_path: Path) -> None:
    labelled = read(judged, sheet(judged, tmp_path / "l.csv", label_accuracy="2", label_style="3"))

    assert {record.field for record in label_files(labelled)} == {None, "style"}
    folder = Path(labelled.repository.uri) / labelled.labels_folder
    stored = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    assert sorted("field" in document for document in stored) == [False, True]


def test_a_sheet_without_a_column_for_labels_names_it(judged: AnswerSet, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("sample_id,repeat,label\nx,0,2\n")
    with pytest.raises(SettingsError, match="has no column 'label_accuracy'"):
        read_sheet(path, open_tasks(judged), "anna")

    twice = sheet(judged, tmp_path / "twice.csv", label_accuracy="2", label_style="9")
    with pytest.raises(
        SettingsError, match="row 2: '9' is no label here: expected '1' or '2' or '3'"
    ):
        read_sheet(twice, open_tasks(judged), "anna")


def test_the_results_beside_the_headline_say_if_people_labelled_them(
    judged: AnswerSet, tmp_path: Path
) -> None:
    def shown(answers: AnswerSet) -> str:
        scored = score_answers(answers, "judge")
        found = result_of(
            answers, score_result(scored, None, calibrate(Result(answers, scored.file)))
        )
        rows = other_table(Evaluation(answer_sets=(found,), repository=answers.repository.uri)).rows
        return next(row[4] for row in rows if row[3] == "style")

    assert shown(judged) == "2.0000 (uncalibrated)"
    labelled = read(judged, sheet(judged, tmp_path / "labels.csv", label_style="3"))
    assert "(by people's labels 3.00" in shown(labelled)
