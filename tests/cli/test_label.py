"""`regrade label`: sheets and the report."""

import json
from pathlib import Path

import pytest

from regrade.answers.labelfile import label_files
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from tests.comparing.sides import answer
from tests.judged import fill, rows_of
from tests.stored import again, score


@pytest.fixture
def answers(tmp_path: Path, spool_home: Path) -> AnswerSet:
    found = answer(LocalRepository(tmp_path / "answers"), "org/a", right=15, total=20)
    score(found)
    return again(found)


def label(answers: AnswerSet, *arguments: str) -> int:
    return run(
        ["label", answers.manifest.answer_set_id, "--answers", answers.repository.uri, *arguments]
    )


def test_a_sheet_goes_out_and_comes_back(
    answers: AnswerSet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.csv"

    assert label(answers, "--sample", "12", "--seed", "0", "--out", str(path)) == 0
    said = capfd.readouterr().out
    fill(path, [row | {"label": "right"} for row in rows_of(path)])
    assert label(answers, "--read", str(path), "--rater", "anna", "--json") == 0

    document = json.loads(capfd.readouterr().out)
    [record] = label_files(again(answers))
    assert (record.sample.size, record.sample.population) == (12, 20)
    assert "12 of 20 answers, drawn with seed 0" in said
    assert (document["method"], document["labelled"], document["raters"]) == ("PPI++", 12, 1)
    assert document["value"] == 1.0
    assert sum(sum(row) for row in document["agreement"]["table"]) == 12


def test_reading_a_sheet_again_completes_a_commit_that_was_killed_before_its_files_were_placed(
    answers: AnswerSet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.csv"
    assert label(answers, "--sample", "12", "--out", str(path)) == 0
    fill(path, [row | {"label": "right"} for row in rows_of(path)])
    assert label(answers, "--read", str(path), "--rater", "anna") == 0
    placed = [*Path(answers.repository.uri, "labels").rglob("labels-*")]
    for file in placed:
        file.unlink()  # its content is kept

    assert label(answers, "--read", str(path), "--rater", "anna") == 0

    assert "0 new labels of 12" in capfd.readouterr().err
    assert len(placed) == 2
    assert [file.exists() for file in placed] == [True, True]


def test_a_wrong_sheet_is_bad_input(
    answers: AnswerSet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("sample_id,repeat\nx,0\n")

    assert label(answers, "--read", str(path), "--rater", "anna") == 2
    assert "has no column 'label'" in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["--report", "--out", "labels.csv"]], ids=["none", "two"]
)
def test_one_thing_is_done_at_a_time(
    answers: AnswerSet, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert label(answers, *arguments) == 2
    assert (
        "Give one of `--out`, `--read`, `--to-mlflow`, `--from-mlflow` and `--report`"
        in capfd.readouterr().err
    )
