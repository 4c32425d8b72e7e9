"""`regrade label`: sheets, a terminal session, and the report."""

import csv
import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrade.answers.labelfile import label_files
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.judging.labels.stored import stored_labels
from regrade.stats.scale import SHARES, Scale
from tests.comparing.sides import answer
from tests.judged import judge
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


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input; what is written to the file descriptor is typed."""
    master, slave = pty.openpty()
    with os.fdopen(slave, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield master
    os.close(master)


def test_a_sheet_goes_out_and_comes_back(
    answers: AnswerSet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.csv"

    assert label(answers, "--sample", "12", "--seed", "0", "--out", str(path)) == 0
    said = capfd.readouterr().out
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"label": "right"} for row in rows)
    assert label(answers, "--read", str(path), "--rater", "anna", "--json") == 0

    document = json.loads(capfd.readouterr().out)
    [record] = label_files(again(answers))
    assert (record.sample.size, record.sample.population) == (12, 20)
    assert "12 of 20 answers, drawn with seed 0" in said
    assert (document["method"], document["labelled"], document["raters"]) == ("PPI++", 12, 1)
    assert document["value"] == 1.0
    assert sum(sum(row) for row in document["agreement"]["table"]) == 12


def test_a_wrong_sheet_is_bad_input(
    answers: AnswerSet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("sample_id,repeat\nx,0\n")

    assert label(answers, "--read", str(path), "--rater", "anna") == 2
    assert "has no column 'label'" in capfd.readouterr().err


def test_answers_are_labelled_one_by_one_with_skip_back_and_quit(
    answers: AnswerSet, typed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    # Right, skip, a typing error, wrong, back, wrong again as right, quit.
    os.write(typed, b"r\n.\nmaybe\nw\n<\nr\nq\n")

    assert label(answers, "--sample", "10", "--rater", "anna") == 0

    found = stored_labels(again(answers), SHARES)
    out, err = capfd.readouterr()
    assert [entry.label for entry in found.latest.values()] == ["right", "right"]
    assert found.seeds == (0,)
    assert "'maybe' is no label here: expected 'wrong' or 'right'" in err
    assert "regrade view" in err
    assert "corrected: uncalibrated" in out
    assert "verdict: " not in err


def test_labels_of_a_session_that_was_killed_are_kept(
    answers: AnswerSet, typed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(typed, b"r\nw\nq\n")
    with monkeypatch.context() as patched:
        patched.setattr("regrade.cli.label._store", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            label(answers, "--sample", "10", "--rater", "anna")
    assert stored_labels(again(answers), SHARES).latest == {}

    os.write(typed, b"q\n")
    assert label(answers, "--sample", "10", "--rater", "anna") == 0

    labels = [entry.label for entry in stored_labels(again(answers), SHARES).latest.values()]
    assert sorted(labels) == ["right", "wrong"]


def test_each_field_of_a_verdict_is_asked_for_one_after_the_other(
    tmp_path: Path, spool_home: Path, typed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = answer(LocalRepository(tmp_path / "answers"), "org/a", total=20, right=20)
    judged = judge(texts, lambda number, _: str(1 + number % 3), rubric="accuracy_style")
    # Accuracy and style of an answer, style of the next one only, back to it, and quit.
    os.write(typed, b"1\n3\n.\n2\n<\n1\nq\n")

    assert label(judged, "--sample", "10", "--rater", "anna", "--json") == 0

    grades = Scale(low=1, high=3, unit="")
    found = {
        field: [
            entry.label for entry in stored_labels(again(judged), grades, field).latest.values()
        ]
        for field in (None, "style")
    }
    out, err = capfd.readouterr()
    assert found == {None: ["1"], "style": ["3", "1"]}
    assert "accuracy [1 1, 2 2, 3 3, . skip" in err
    assert json.loads(out)["fields"]["style"]["labelled"] == 2


def test_labelling_one_by_one_needs_a_terminal_and_a_name(
    answers: AnswerSet, typed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert label(answers) == 2
    assert "with `--rater NAME`" in capfd.readouterr().err

    with open(os.devnull) as nothing, pytest.MonkeyPatch.context() as patched:  # noqa: PTH123
        patched.setattr(sys, "stdin", nothing)
        assert label(answers, "--rater", "anna") == 2
    assert "needs a terminal" in capfd.readouterr().err
