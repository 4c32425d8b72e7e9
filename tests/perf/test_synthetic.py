"""Answers that scripts make for their measurements can be stored and scored."""

from pathlib import Path

from perf.synthetic import write_answers
from regrade.scoring.score import score_answers


def test_made_answers_are_stored_once_and_scored(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "answers", 50)

    assert (answers.manifest.rows, answers.manifest.state) == (50, "complete")
    assert score_answers(answers, "number").file.summary.overall.n == 50
    assert write_answers(tmp_path / "answers", 50).revision == answers.revision
