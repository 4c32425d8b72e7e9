"""Wrong answers that are shown beside results."""

from pathlib import Path

from regrade.answers.local import LocalRepository
from regrade.scoring.score import score_answers
from regrade.scoring.wrong import wrong_examples
from tests.judged import graded


def test_grades_below_the_best_are_wrong_answers_on_any_scale(tmp_path: Path):
    judged = graded(LocalRepository(tmp_path / "answers"), "org/a", (1, 3, 3, 3, 3, 3))

    found = wrong_examples(judged, score_answers(judged, "judge").file, None)

    assert len(found) == 10
    assert {example["extracted"] for example in found} == {"1"}
