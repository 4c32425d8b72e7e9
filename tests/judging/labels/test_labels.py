"""Labels of plain scorings and of judge runs: sheets, storage, and the figures that they correct."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from regrade.answers.labelfile import label_files
from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.verify import verify
from regrade.judging.labels.calibrate import calibrate
from regrade.judging.labels.calibrated import Calibrated, calibrated
from regrade.judging.labels.importing import new_labels
from regrade.judging.labels.panels import calibrated_panel
from regrade.judging.labels.sampling import random_order, random_part
from regrade.judging.labels.scheme import Scheme
from regrade.judging.labels.sheet import read_sheet, write_sheet
from regrade.judging.labels.stored import stored_labels
from regrade.judging.labels.task import LabelTask
from regrade.judging.panel import panel
from regrade.records.rubrics.facts import judge_run
from regrade.records.specification import PromptIdentity
from regrade.settings import SamplingParams
from regrade.settings.errors import DamagedAnswersError, SettingsError
from regrade.stats.scale import SHARES, Scale
from tests.comparing.sides import answer
from tests.judged import TRUTH, fill, judge, judged_of, open_task, read_in, rows_of
from tests.stored import again, commit_shards, numbers, publish, score


@pytest.fixture
def task(repository: LocalRepository) -> LabelTask:
    answers = answer(repository, "org/a", right=30, total=40)
    score(answers)
    return open_task(again(answers))


def labelled(task: LabelTask, label: str, path: Path, size: int = 20, **cells: str) -> Path:
    """A sheet in which all answers have one label."""
    write_sheet(path, [task], task.sample(size, 0), 0, show_verdict=False)
    fill(path, [row | {"label": label, **cells} for row in rows_of(path)])
    return path


def test_a_larger_sample_contains_a_smaller_one_also_of_more_answers() -> None:
    keys = [(f"q{number}", 0) for number in range(100)]
    more = [*keys, *((f"r{number}", 0) for number in range(100))]

    small = [keys[place] for place in random_order(keys, 1)[:20]]

    assert [keys[place] for place in random_order(keys, 1)[:40]][:20] == small
    kept = [key for place in random_order(more, 1) if (key := more[place])[0].startswith("q")]
    assert kept[:20] == small
    assert [keys[place] for place in random_order(keys, 2)[:20]] != small


def test_chosen_answers_are_no_random_part_and_drawn_ones_are() -> None:
    keys = [(f"q{number}", 0) for number in range(200)]
    drawn = [keys[place] for place in random_order(keys, 0)[:50]]

    assert len(random_part(keys, drawn, 0)) == 50
    assert len(random_part(keys, [*drawn[:20], *drawn[21:]], 0)) == 49  # one that nobody could tell
    assert len(random_part(keys, keys[:50], 0)) < 10
    assert len(random_part(keys, keys, 7)) == 200


def test_a_sheet_has_no_verdict_unless_it_is_asked_for(task: LabelTask, tmp_path: Path) -> None:
    hidden, shown = tmp_path / "hidden.csv", tmp_path / "shown.csv"
    write_sheet(hidden, [task], task.sample(5, 0), 0, show_verdict=False)
    write_sheet(shown, [task], task.sample(5, 0), 0, show_verdict=True)

    assert "verdict" not in rows_of(hidden)[0]
    assert {row["verdict"] for row in rows_of(shown)} <= {"0", "1"}
    assert rows_of(hidden)[0]["question"].startswith("What is ")


def test_labels_are_stored_beside_the_answers_and_read_back(
    task: LabelTask, tmp_path: Path
) -> None:
    read_in(labelled(task, "Right", tmp_path / "labels.csv"), task)

    answers = again(task.answers)
    [record] = label_files(answers)
    stored = stored_labels(answers, SHARES)
    assert (record.rows, record.raters, record.sample.seed) == (20, ("anna",), 0)
    assert (record.sample.size, record.sample.population) == (20, 40)
    assert {label.label for label in stored.latest.values()} == {"right"}
    assert stored.keys == {item.key for item in task.sample(20, 0)}


def test_a_sheet_read_twice_adds_nothing(task: LabelTask, tmp_path: Path) -> None:
    path = labelled(task, "right", tmp_path / "labels.csv")
    read_in(path, task)
    second = open_task(again(task.answers))

    [*rows] = read_sheet(path, [second], "anna")
    assert new_labels([read.given for read in rows], second, revise=False) == []


def test_another_label_by_the_same_person_is_refused_unless_it_is_a_revision(
    task: LabelTask, tmp_path: Path
) -> None:
    read_in(labelled(task, "right", tmp_path / "first.csv", 12), task)
    second = open_task(again(task.answers))
    path = labelled(second, "wrong", tmp_path / "second.csv", 12)

    with pytest.raises(
        SettingsError, match="'anna' labelled answer 'sample-.*'right' before, and 'wrong'"
    ):
        read_in(path, second)
    read_in(path, second, "ben")
    read_in(path, second, revise=True)

    stored = stored_labels(again(task.answers), SHARES)
    assert len(label_files(again(task.answers))) == 3
    assert {(label.rater, label.label) for label in stored.latest.values()} == {
        ("anna", "wrong"),
        ("ben", "wrong"),
    }


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({"label": "maybe"}, "row 2: 'maybe' is no label here: expected 'wrong' or 'right'"),
        ({"sample_id": "sample-99999"}, "has no answer to sample 'sample-99999', repeat 0"),
        ({"repeat": "first"}, "row 2: its repeat is 'first', expected a whole number"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_nothing_is_read(
    task: LabelTask, tmp_path: Path, cells: dict[str, str], problem: str
) -> None:
    path = labelled(task, "right", tmp_path / "labels.csv", 3)
    first, *others = rows_of(path)
    fill(path, [first | cells, *others])

    with pytest.raises(SettingsError) as raised:
        read_sheet(path, [task], "anna")

    assert problem in str(raised.value)
    assert "none of them" in str(raised.value)


def test_a_changed_answer_is_shown_from_where_it_differs(task: LabelTask, tmp_path: Path) -> None:
    path = labelled(task, "right", tmp_path / "labels.csv", 3)
    first, *others = rows_of(path)
    fill(path, [first | {"answer": first["answer"] + " or not"}, *others])

    told = f"after {len(first['answer'])} characters it goes on with ' or not', stored is ''"
    with pytest.raises(SettingsError, match=told):
        read_sheet(path, [task], "anna")


def test_an_answer_labelled_twice_by_one_person_is_refused(task: LabelTask, tmp_path: Path) -> None:
    path = labelled(task, "right", tmp_path / "labels.csv", 3)
    rows = rows_of(path)
    fill(path, [*rows, rows[0] | {"label": "wrong"}])

    with pytest.raises(SettingsError, match="row 5: 'anna' labels answer .* in row 2 too"):
        read_sheet(path, [task], "anna")


def test_labels_without_a_rater_are_refused(task: LabelTask, tmp_path: Path) -> None:
    path = labelled(task, "right", tmp_path / "labels.csv", 3)

    with pytest.raises(SettingsError, match="it has no rater"):
        read_sheet(path, [task], None)


def test_a_sheet_is_never_overwritten(task: LabelTask, tmp_path: Path) -> None:
    path = labelled(task, "right", tmp_path / "labels.csv", 3)

    with pytest.raises(SettingsError, match="exists"):
        write_sheet(path, [task], task.sample(3, 0), 0, show_verdict=False)


@pytest.mark.parametrize(
    "text", ["=1+1", "+49 30", "-3", "@home", "'tis", "a;=1+1;", "a\n=1+1", "- a\n- b", "a\t @b"]
)
def test_an_answer_is_no_formula_in_a_spreadsheet_and_comes_back(
    repository: LocalRepository, tmp_path: Path, text: str
) -> None:
    answers = answer(repository, "org/a", total=3, unparsed=3, unparsed_text=text)
    task = open_task(answers)
    path = labelled(task, "wrong", tmp_path / "labels.csv", 3)

    assert all(row["answer"][0] not in "=+-@" for row in rows_of(path))
    for separator in ";\t":  # as a spreadsheet of another country opens it
        cells = csv.reader(path.read_text("utf-8-sig").splitlines(), delimiter=separator)
        assert all(cell.strip()[:1] not in ("=", "+", "-", "@") for row in cells for cell in row)
    assert len(read_sheet(path, [task], "anna")) == 3


def test_a_sheet_of_before_inner_cells_were_guarded_is_read(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = answer(repository, "org/a", total=3, unparsed=3, unparsed_text="-a;=b\n- c")
    task = open_task(answers)
    path = labelled(task, "wrong", tmp_path / "labels.csv", 3)
    rows = rows_of(path)
    assert rows[0]["answer"] == "'-a;'=b\n'- c"
    fill(path, [row | {"answer": "'-a;=b\n- c"} for row in rows])

    assert len(read_sheet(path, [task], "anna")) == 3


def test_a_sheet_with_semicolons_and_other_line_ends_is_read(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = answer(repository, "org/a", total=3, unparsed=3, unparsed_text="one\ntwo;\nthree")
    task = open_task(answers)
    path = labelled(task, "wrong", tmp_path / "labels.csv", 3)
    rows = rows_of(path)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(row | {"answer": "one\r\ntwo;\r\nthree"} for row in rows)

    assert len(read_sheet(path, [task], "anna")) == 3


def test_of_two_columns_with_one_name_none_is_read(task: LabelTask, tmp_path: Path) -> None:
    path = labelled(task, "right", tmp_path / "labels.csv", 3)
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{header},label", *(f"{line},wrong" for line in lines)]))

    with pytest.raises(SettingsError, match=r"labels\.csv' has two columns 'label'"):
        read_sheet(path, [task], "anna")


def test_a_number_that_people_give_is_kept_as_it_is() -> None:
    scheme = Scheme({}, Scale(low=0, high=10_000_000, unit=""))

    read = [scheme.read(text) for text in ("0.12345678", "1234567", "7", "2.50")]

    assert read == [("0.12345678", 0.12345678), ("1234567", 1234567.0), ("7", 7.0), ("2.5", 2.5)]


def test_a_damaged_table_of_labels_is_found(task: LabelTask, tmp_path: Path) -> None:
    read_in(labelled(task, "right", tmp_path / "labels.csv"), task)
    [record] = label_files(again(task.answers))
    path = f"{task.answers.labels_folder}/{record.label}.parquet"
    repository = task.answers.repository
    assert verify(repository, repository.head()).problems == []
    repository.commit({path: b"PAR1"}, "damage", parent=repository.head())

    with pytest.raises(DamagedAnswersError, match="sha256"):
        stored_labels(again(task.answers), SHARES)
    problems = verify(repository, repository.head()).problems
    assert [(problem.path, "sha256" in problem.problem) for problem in problems] == [(path, True)]


def calibration_of(answers: AnswerSet) -> Calibrated:
    [file] = answers.scores()
    return calibrate(Result(answers, file))


def test_a_judge_without_labels_is_uncalibrated(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = judged_of(repository, tmp_path, seed=0, labels=0, n=40)

    found = calibration_of(judged)

    assert (found.method, found.text, found.value) == (None, "uncalibrated", None)
    assert "nobody has labelled" in found.reason


def test_people_compare_pairs_without_knowing_whose_answer_is_which(
    repository: LocalRepository, tmp_path: Path
) -> None:
    base = answer(repository, "org/base", right=0, total=40)
    answers = answer(repository, "org/a", right=40, total=40)
    judged = judge(answers, lambda *_: "candidate", rubric="pairwise", baseline=base)
    task = open_task(judged)
    path = tmp_path / "labels.csv"
    write_sheet(path, [task], task.sample(30, 0), 0, show_verdict=False)
    rows = rows_of(path)
    for row in rows:  # the candidate's answers are right
        first = row["answer"].split("Second answer:")[0]
        row["label"] = "first" if "It is " in first else "second"
    fill(path, rows)
    read_in(path, task)

    found = calibration_of(again(judged))
    labels = stored_labels(again(judged), SHARES)

    assert task.offered == ("first", "second", "tie")
    assert {row["label"] for row in rows} == {"first", "second"}
    assert {label.label for label in labels.latest.values()} == {"candidate"}
    assert (found.method, found.value) == ("PPI++", 1.0)
    assert found.agreement.labels == ("baseline", "tie", "candidate")


def test_people_are_told_what_the_labels_of_a_rubric_mean(
    repository: LocalRepository, tmp_path: Path
) -> None:
    task = open_task(judged_of(repository, tmp_path, seed=0, labels=0, n=20))

    assert task.expected == "'B' (incorrect) or 'C' (not attempted) or 'A' (correct)"
    assert task.read(("sample-00001", 0), "Not  attempted") == ("C", 0.0)


def test_labels_of_a_random_part_correct_the_judge(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = judged_of(repository, tmp_path, seed=1, labels=120)
    [file] = judged.scores()

    found = calibration_of(judged)

    assert file.summary.overall.accuracy_low > TRUTH  # the judge alone misses the truth
    assert (found.method, found.labelled) == ("PPI++", 120)
    assert found.low < TRUTH < found.high
    assert found.sensitivity == pytest.approx(0.95, abs=0.08)
    assert found.specificity == pytest.approx(0.5, abs=0.15)
    assert found.agreement.labels == ("B or C", "A")
    assert found.text.endswith("(PPI++, 120 labels)")


def judged_answers_of(judged: AnswerSet) -> AnswerSet:
    run = judge_run(judged.manifest.specification)
    head = judged.repository.head()
    return list_sets(judged.repository, head, answer_set_id=run.judged.answer_set_id)[0]


def refusing(repository: LocalRepository) -> AnswerSet:
    """A run of a judge that knows the truth, and gives no verdict on a part of the wrong answers."""
    answers = answer(repository, "org/a", wrong=tuple(range(0, 300, 3)), total=300)
    return judge(
        answers, lambda number, _: None if number % 15 == 0 else "B" if number % 3 == 0 else "A"
    )


def label_truth(task: LabelTask, path: Path, size: int) -> None:
    """Labels of a random sample by people who know that every third answer is wrong."""
    write_sheet(path, [task], task.sample(size, 0), 0, show_verdict=True)
    right = [int(row["sample_id"].removeprefix("sample-")) % 3 > 0 for row in rows_of(path)]
    rows = zip(rows_of(path), right, strict=True)
    fill(path, [row | {"label": "A" if is_right else "B"} for row, is_right in rows])
    read_in(path, task)


def test_answers_without_a_verdict_are_labelled_and_part_of_the_corrected_figure(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = refusing(repository)
    label_truth(open_task(judged), tmp_path / "labels.csv", 300)

    found = calibration_of(again(judged))

    assert judged.scores()[0].summary.overall.accuracy == pytest.approx(200 / 280)
    assert {"none", "0", "1"} == {row["verdict"] for row in rows_of(tmp_path / "labels.csv")}
    assert found.value == pytest.approx(2 / 3)
    assert (found.labelled, found.reason) == (300, "")


def test_labels_of_the_answers_with_a_verdict_give_an_interval_for_all(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = refusing(repository)
    task = open_task(judged)
    graded = {key: item for key, item in task.items.items() if item.verdict is not None}
    label_truth(replace(task, items=graded), tmp_path / "labels.csv", 200)
    answers = judged_answers_of(judged)
    other = judge(answers, lambda number, _: "B" if number % 3 == 0 else "A", model="org/other")

    for found in (calibration_of(again(judged)), calibration_of(other)):
        assert (found.method, found.labelled) == ("PPI++", 200)
        assert found.low < 2 / 3 - 0.02  # all of the 20 other answers may be wrong
        assert "without 20 of the 300 answers" in found.reason


def test_labels_stay_usable_if_answers_are_added(
    repository: LocalRepository, tmp_path: Path
) -> None:
    few = publish(repository, numbers(0, 200), total=250)
    score(few)
    task = open_task(again(few))
    read_in(labelled(task, "right", tmp_path / "labels.csv", 100), task)
    more = publish(repository, numbers(200, 250), total=250)
    score(more)

    found = calibration_of(again(more))

    assert found.method == "PPI++"
    assert found.labelled > 90
    assert "without 50 of the 250 answers" in found.reason
    assert found.low < 0.8 < found.value == 1.0


def test_labels_of_a_judge_stay_usable_if_answers_are_added_and_judged(
    repository: LocalRepository, tmp_path: Path
) -> None:
    few = judge(publish(repository, numbers(0, 200), total=250), lambda *_: "A", questions=200)
    task = open_task(again(few))
    read_in(labelled(task, "correct", tmp_path / "labels.csv", 100), task)
    grown = publish(repository, numbers(200, 250), total=250)
    more = judge(grown, lambda *_: "A")
    other = judge(grown, lambda *_: "A", model="org/other")

    for judged in map(again, (more, other)):
        found = calibration_of(judged)
        assert (found.method, found.labelled) == ("PPI++", 100)
        assert "without 50 of the 250 answers" in found.reason
        assert found.low < 0.8 < found.value == 1.0
    assert calibration_of(again(few)).reason == ""
    healed = judge(commit_shards(again(grown), numbers(0, 250)), lambda *_: "A")
    assert stored_labels(again(healed), SHARES).latest == {}


def test_labels_of_answers_to_another_benchmark_correct_nothing(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged_of(repository, tmp_path, seed=1, labels=30, n=60, model="org/a")
    other = judged_of(
        repository, tmp_path, seed=2, labels=0, n=60, model="org/b", benchmark="others"
    )

    assert calibration_of(other).method is None


def test_labels_of_chosen_answers_correct_by_the_errors_of_the_judge(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = judged_of(repository, tmp_path, seed=1, labels=120, chosen=True)

    found = calibration_of(judged)

    assert found.method == "Rogan-Gladen"
    assert found.low < TRUTH < found.high
    assert "no random part" in found.reason


def test_labels_of_other_answers_under_the_same_judge_correct_too(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged_of(repository, tmp_path, seed=1, labels=150, model="org/a")
    other = judged_of(repository, tmp_path, seed=2, labels=0, model="org/b")

    found = calibration_of(other)

    assert (found.method, found.labelled) == ("Rogan-Gladen", 150)
    assert found.reason.startswith("the labels are of answers of org/a to the same benchmark")
    assert found.low < TRUTH < found.high


def test_a_judge_whose_labelled_verdicts_on_other_answers_are_damaged_is_uncalibrated(
    repository: LocalRepository, tmp_path: Path
) -> None:
    labelled_set = judged_of(repository, tmp_path, seed=1, labels=150, model="org/a")
    other = judged_of(repository, tmp_path, seed=2, labels=0, model="org/b")
    [file] = labelled_set.scores()
    path = f"{labelled_set.scores_folder}/{file.label}.json"
    repository.commit({path: b"{"}, "damage", parent=repository.head())

    found = calibration_of(again(other))

    assert found.method is None
    assert f"'{path}' is damaged" in found.reason


def test_labels_of_the_same_answers_count_for_every_judge_of_them(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = judged_of(repository, tmp_path, seed=1, labels=120)
    answers = judged_answers_of(judged)
    other = judge(answers, lambda number, _: "AB"[number % 2], model="org/coin")

    found = calibration_of(other)

    assert (found.method, found.labelled) == ("PPI++", 120)
    assert found.low < TRUTH < found.high
    assert found.agreement.kappa.high < 0.4


def test_labels_correct_a_panel_of_judges(repository: LocalRepository, tmp_path: Path) -> None:
    judged = judged_of(repository, tmp_path, seed=1, labels=120)
    answers = judged_answers_of(judged)
    others = [judge(answers, lambda *_: "A", model=f"org/{name}") for name in ("two", "three")]
    combined = panel([judged, *others])

    found = calibrated_panel(combined, [judged, *others])

    assert combined.mean("majority") == 1.0  # two judges call everything right
    assert [calibrated.method for calibrated in found.values()] == ["PPI++"] * 5
    assert found["majority"].low < TRUTH < found["majority"].high


def test_answers_on_which_a_panel_is_divided_are_corrected_too(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = judged_of(repository, tmp_path, seed=1, labels=300)
    answers = judged_answers_of(judged)
    strict = judge(answers, lambda *_: "B", model="org/strict")
    combined = panel([judged, strict])

    found = calibrated_panel(combined, [judged, strict])["majority"]

    labels = stored_labels(judged, SHARES)
    assert len(combined.values("majority")) < 150
    assert combined.mean("majority") is None
    assert found.labelled == 300
    assert found.value == pytest.approx(float(labels.values(list(labels.keys)).mean()))


def test_labels_by_other_criteria_are_not_shared(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = answer(repository, "org/a", right=40, total=40)
    judged = judge(answers, lambda *_: "A", criteria="a" * 64)
    task = open_task(judged)
    read_in(labelled(task, "A", tmp_path / "labels.csv"), task)
    other = judge(answers, lambda *_: "A", criteria="b" * 64)
    same = judge(answers, lambda *_: "A", criteria="a" * 64, model="org/other")

    assert stored_labels(again(other), SHARES).latest == {}
    assert len(stored_labels(again(same), SHARES).latest) == 20


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": {"dtype": "float16"}},
        {"sampling": SamplingParams(temperature=0.7)},
        {"prompt": PromptIdentity(format="chat", template="x", n_shots=0, system="Be strict.")},
    ],
)
def test_labels_of_other_answers_say_nothing_about_a_judge_with_other_settings(
    repository: LocalRepository, tmp_path: Path, changes: dict[str, object]
) -> None:
    judged_of(repository, tmp_path, seed=1, labels=30, n=60, model="org/a")
    other = judged_of(repository, tmp_path, seed=2, labels=0, n=60, model="org/b", **changes)

    assert calibration_of(other).method is None


def test_labels_of_one_scale_correct_no_scoring_of_another(task: LabelTask, tmp_path: Path) -> None:
    read_in(labelled(task, "right", tmp_path / "labels.csv"), task)
    answers = again(task.answers)
    [file] = answers.scores()
    grades = file.model_copy(update={"scale": Scale(low=1, high=3, unit="")})

    assert calibrate(Result(answers, file)).method == "PPI++"
    assert calibrate(Result(answers, grades)) is None


def test_labels_of_answers_that_were_generated_again_do_not_count(
    task: LabelTask, tmp_path: Path
) -> None:
    read_in(labelled(task, "right", tmp_path / "labels.csv"), task)
    fresh = commit_shards(again(task.answers), numbers(0, 40))

    labels = stored_labels(fresh, SHARES)

    assert (labels.latest, labels.outdated) == ({}, 20)
    assert "generated again" in calibrated(open_task(fresh).verdicts, labels).reason


def test_a_plain_scoring_with_labels_is_compared_with_them(task: LabelTask, tmp_path: Path) -> None:
    read_in(labelled(task, "right", tmp_path / "labels.csv"), task)

    found = calibration_of(again(task.answers))

    assert (found.method, found.value) == ("PPI++", 1.0)
    assert found.agreement.table[1][0] == 0


def test_a_plain_scoring_without_labels_needs_none(task: LabelTask) -> None:
    assert calibration_of(again(task.answers)) is None


def test_several_people_are_compared_with_each_other(task: LabelTask, tmp_path: Path) -> None:
    read_in(labelled(task, "right", tmp_path / "a.csv"), task)
    second = open_task(again(task.answers))
    path = labelled(second, "right", tmp_path / "b.csv")
    rows = rows_of(path)
    fill(path, [row | {"label": "wrong"} for row in rows[:5]] + rows[5:])
    read_in(path, second, "ben")

    found = calibration_of(again(task.answers))

    assert found.raters == 2
    assert found.people.value < 1
    assert found.agreement.n == 15  # on five answers people are divided


def test_verdicts_of_a_judge_asked_twice_are_averaged(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = answer(repository, "org/a", right=20, total=40, repeats=2, temperature=1.0)
    judged = judge(answers, lambda number, _: "A" if number < 20 else "B", judge_repeats=3)

    task = open_task(judged)

    assert len(task.items) == 80
    assert set(task.verdicts.value) == {0.0, 1.0}


def test_grades_from_one_to_three_are_corrected_in_their_unit(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = answer(repository, "org/a", total=60, right=60)
    judged = judge(answers, lambda number, _: str(1 + number % 3), rubric="accuracy_style")
    task = open_task(judged)
    read_in(labelled(task, "", tmp_path / "labels.csv", 30, label_accuracy="2"), task)

    found = calibration_of(again(judged))

    assert (found.method, found.value) == ("PPI++", 2.0)
    assert found.text.startswith("2.00, ")
    assert found.agreement.labels == ("1", "2", "3")
