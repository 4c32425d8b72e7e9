"""Wrong answers that are shown beside results."""

from pathlib import Path

from regrade.answers.local import LocalRepository
from regrade.scoring.score import score_answers
from regrade.scoring.wrong import wrong_examples
from tests.builders import row
from tests.judged import graded
from tests.stored import publish


def test_grades_below_the_best_are_wrong_answers_on_any_scale(tmp_path: Path):
    judged = graded(LocalRepository(tmp_path / "answers"), "org/a", (1, 3, 3, 3, 3, 3))

    found = wrong_examples(judged, score_answers(judged, "judge").file, None)

    assert len(found) == 10
    assert {example["extracted"] for example in found} == {"1"}


def test_a_ranked_question_is_shown_with_its_choices(tmp_path: Path):
    prompt = "Which sum is right?\nA. 5+3=10\nB. 4+7=11\nAnswer:"
    ranked = {"text": None, "choices": ["5+3=10", "4+7=11"], "label_logprobs": [-0.1, -2.0]}
    rows = [row(0, question="Which sum is right?", prompt=prompt, target="B") | ranked]
    answers = publish(LocalRepository(tmp_path / "answers"), rows, method="rank")

    scored = score_answers(answers, "choice_logprob")
    (example,) = wrong_examples(answers, scored.file, scored.table)

    assert (example["question"], example["extracted"]) == (prompt, "A")
