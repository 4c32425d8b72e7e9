"""`regrade label`: sheets and the report."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from tests.command_line import Ran, regrade
from tests.comparing.sides import answer
from tests.judged import fill, rows_of
from tests.stored import again, score


@pytest.fixture
def answers(tmp_path: Path, spool_home: Path) -> AnswerSet:
    found = answer(LocalRepository(tmp_path / "answers"), "org/a", right=15, total=20)
    score(found)
    return again(found)


def label(answers: AnswerSet, *arguments: str) -> Ran:
    where = ("--answers", answers.repository.uri)
    return regrade("label", answers.manifest.answer_set_id, *where, *arguments)


def test_reading_a_sheet_again_completes_a_commit_that_was_killed_before_its_files_were_placed(
    answers: AnswerSet, tmp_path: Path
) -> None:
    path = tmp_path / "labels.csv"
    assert label(answers, "--sample", "12", "--out", str(path)).code == 0
    fill(path, [row | {"label": "right"} for row in rows_of(path)])
    assert label(answers, "--read", str(path), "--rater", "anna").code == 0
    placed = [*Path(answers.repository.uri, "labels").rglob("labels-*")]
    for file in placed:
        file.unlink()  # its content is kept

    ran = label(answers, "--read", str(path), "--rater", "anna")

    assert (ran.code, "0 new labels of 12" in ran.err) == (0, True)
    assert len(placed) == 2
    assert [file.exists() for file in placed] == [True, True]


def test_a_wrong_sheet_is_bad_input(answers: AnswerSet, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("sample_id,repeat\nx,0\n")

    ran = label(answers, "--read", str(path), "--rater", "anna")
    assert (ran.code, "has no column 'label'" in ran.err) == (2, True)
