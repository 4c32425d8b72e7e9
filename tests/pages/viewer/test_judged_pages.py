"""The viewer's pages of judged answers, of verdicts, and of answers that people labelled."""

import json
from pathlib import Path

import pytest

from regrade.answers.labelfile import label_files
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.sheet import write_sheet
from tests.comparing.sides import answer
from tests.judged import fill, judge, judged_of, open_task, read_in, rows_of
from tests.judging.running import run_judge
from tests.judging.scripted import ScriptedJudge, candidates
from tests.pages.viewer.reading import Reader
from tests.stored import again, commit_shards, numbers, score


def id_of(answers: AnswerSet) -> str:
    return answers.manifest.answer_set_id


def test_a_judged_set_names_both_the_candidate_and_the_judge(reader: Reader):
    answers = answer(reader.repository, "org/candidate", right=3, total=6)
    verdicts = judge(answers, lambda number, _: "AB"[number % 2], model="org/judge")

    listed = reader.page("/").rows
    page = reader.page(f"/sets/{id_of(verdicts)}")
    verdict = reader.page(f"/sets/{id_of(verdicts)}/answer?sample=sample-00001")

    assert sum("org/candidate (judge org/judge)" in row for row in listed) == 1
    assert len(reader.page("/?q=org%2Fcandidate").rows) == 2
    assert "org/candidate (judge org/judge) · judge:correct:" in page.text
    assert "org/candidate (judge org/judge)" in verdict.text


def test_an_answer_leads_to_its_verdicts_without_showing_them_and_back(reader: Reader):
    answers = answer(reader.repository, "org/candidate", right=3, total=6)
    verdicts = judge(answers, lambda number, _: "AB"[number % 2], judge_repeats=2)
    few = judge(answers, lambda *_: "A", model="org/strict", questions=2)

    page = reader.page(f"/sets/{id_of(answers)}/answer?sample=sample-00004")
    of_judge = reader.page(f"/sets/{id_of(verdicts)}/answer?sample=sample-00004&number=1")

    assert "Judges of this answer org/judge by rubric correct" in page.text
    assert "org/strict" not in page.text  # judged only the first two questions
    assert page.links(f"/sets/{id_of(verdicts)}/answer.*sample-00004&number=0")
    assert "As it is." not in page.text
    assert "Judged judged answer of org/candidate" in of_judge.text
    assert of_judge.links(f"/sets/{id_of(answers)}/answer.*sample-00004&number=0")
    first = reader.page(f"/sets/{id_of(answers)}/answer?sample=sample-00001")
    assert "org/strict by rubric correct" in first.text
    assert id_of(few) in " ".join(first.links("answer"))


@pytest.mark.parametrize("mark", ["</think>", "<think>"])
def test_a_verdict_that_quotes_a_mark_of_reasoning_is_shown_whole(
    reader: Reader, tmp_path: Path, mark: str
):
    candidates(reader.repository, ["It is 5."])
    said = json.dumps({"explanation": f"It writes {mark} and more", "verdict": "B"})
    verdicts = run_judge(ScriptedJudge(lambda _: said), tmp_path, rubric="correct")
    score(verdicts, "judge")

    page = reader.page(f"/sets/{id_of(verdicts)}/answer?sample=sample-00001")

    assert "Thought" not in page.text
    assert said in page.text
    assert "read B" in page.text


def label_first(verdicts: AnswerSet, path: Path, label: str, rater: str) -> str:
    """Store a person's label of the first answer, and return its sample id."""
    task = open_task(verdicts)
    first = next(iter(task.items.values()))
    write_sheet(path, [task], [first], 0, show_verdict=False)
    fill(path, [row | {"label": label} for row in rows_of(path)])
    read_in(path, task, rater)
    return first.key[0]


def test_labels_of_people_are_folded_on_the_pages_of_answer_and_verdict(
    reader: Reader, tmp_path: Path
):
    answers = answer(reader.repository, "org/candidate", right=3, total=6)
    verdicts = judge(answers, lambda *_: "A", judge_repeats=2)
    other = judge(answers, lambda *_: "B", model="org/other")
    label_first(verdicts, tmp_path / "anna.csv", "correct", "anna")
    sample = label_first(other, tmp_path / "ben.csv", "not attempted", "ben")

    for set_id, number in ((id_of(answers), 0), (id_of(verdicts), 1), (id_of(other), 0)):
        page = reader.page(f"/sets/{set_id}/answer?sample={sample}&number={number}")
        assert "2 labels by people anna correct A" in page.text
        assert "ben correct C" in page.text
        assert "<details><summary><h2>2 labels" in page.html
        unlabelled = reader.page(f"/sets/{set_id}/answer?sample=sample-00005")
        assert "by people" not in unlabelled.text


def test_labels_of_a_scoring_without_a_judge_are_on_the_page(reader: Reader, tmp_path: Path):
    answers = answer(reader.repository, "org/a", right=3, total=4)
    score(answers)
    sample = label_first(answers, tmp_path / "labels.csv", "wrong", "anna")

    page = reader.page(f"/sets/{id_of(answers)}/answer?sample={sample}")

    assert "1 label by people anna right or wrong wrong" in page.text


def test_a_label_that_was_read_while_the_viewer_runs_shows_up(reader: Reader, tmp_path: Path):
    answers = answer(reader.repository, "org/a", right=3, total=4)
    score(answers)
    address = f"/sets/{id_of(answers)}/answer?sample=sample-00000"
    assert "by people" not in reader.page(address).text

    label_first(answers, tmp_path / "labels.csv", "right", "anna")

    assert "1 label by people" in reader.page(address).text


def test_damaged_labels_are_named_and_the_answer_can_still_be_read(reader: Reader, tmp_path: Path):
    answers = answer(reader.repository, "org/a", right=3, total=4)
    score(answers)
    sample = label_first(answers, tmp_path / "labels.csv", "right", "anna")
    [record] = label_files(again(answers))
    path = f"{answers.labels_folder}/{record.label}.parquet"
    reader.repository.commit({path: b"PAR1"}, "damage", parent=reader.repository.head())

    page = reader.page(f"/sets/{id_of(answers)}/answer?sample={sample}")

    assert f"{path}" in page.text
    assert "All scorings of this answer" in page.text


def test_labels_of_answers_that_were_generated_again_are_not_shown(reader: Reader, tmp_path: Path):
    answers = answer(reader.repository, "org/a", right=3, total=4)
    score(answers)
    sample = label_first(answers, tmp_path / "labels.csv", "right", "anna")
    address = f"/sets/{id_of(answers)}/answer?sample={sample}"
    assert "1 label by people" in reader.page(address).text

    commit_shards(answers, numbers(0, 4))

    assert "by people" not in reader.page(address).text


def test_a_damaged_run_of_a_judge_does_not_hide_the_answer(reader: Reader):
    answers = answer(reader.repository, "org/candidate", right=3, total=6)
    few = judge(answers, lambda *_: "A", model="org/strict", questions=2)
    [shard] = few.manifest.shards
    path = f"{few.folder}/{shard.name}"
    reader.repository.commit({path: b"PAR1"}, "damage", parent=reader.repository.head())

    page = reader.page(f"/sets/{id_of(answers)}/answer?sample=sample-00001")

    assert "org/strict by rubric" not in page.text
    assert "sample sample-00001 · repeat 0" in page.text


def test_the_list_names_no_average_over_the_times_that_a_judge_was_asked(reader: Reader):
    answers = answer(reader.repository, "org/candidate", right=3, total=6)
    verdicts = judge(answers, lambda number, _: "AB"[number % 2], judge_repeats=2)
    score(verdicts, "judge")

    assert "avg@" not in reader.page("/").text


def test_verdicts_are_called_uncalibrated_until_people_label_them(reader: Reader, tmp_path: Path):
    verdicts = judged_of(reader.repository, tmp_path, seed=1, labels=0, n=120)
    pages = ("/", f"/sets/{id_of(verdicts)}")
    assert ["uncalibrated" in reader.page(page).text for page in pages] == [True, True]
    assert sum("uncalibrated" in row for row in reader.page("/").rows) == 1  # not the answers

    task = open_task(verdicts)
    path = tmp_path / "labels.csv"
    write_sheet(path, [task], task.sample(60, 0), 0, show_verdict=False)
    fill(path, [row | {"label": "correct"} for row in rows_of(path)])
    read_in(path, task)

    for page in pages:
        text = reader.page(page).text
        assert "(PPI++, 60 labels)" in text
        assert "uncalibrated" not in text
