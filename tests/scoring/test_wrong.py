"""Wrong answers that are shown beside results."""

import shlex
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.cli.main import run
from regrade.scoring.score import score_answers
from regrade.scoring.wrong import wrong_examples
from regrade.settings import SamplingParams
from tests.builders import row
from tests.judged import graded
from tests.stored import publish, score


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


def test_the_command_beside_a_wrong_answer_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("REGRADE_VIEW_URL", raising=False)
    rows = [row(0, repeat=0), row(0, "It is #### 99", repeat=1)]
    sampling = SamplingParams(temperature=0.6)
    answers = publish(LocalRepository(tmp_path / "an swers"), rows, repeats=2, sampling=sampling)
    score(answers)

    scored = score_answers(answers, "number")
    (example,) = wrong_examples(answers, scored.file, scored.table)
    program, *arguments = shlex.split(example["read it"])

    assert program == "regrade"
    assert run(arguments) == 0
    assert "It is #### 99" in capfd.readouterr().out
