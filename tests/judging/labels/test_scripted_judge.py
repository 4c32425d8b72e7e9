"""A judge of known errors behind an OpenAI-compatible server: its own interval misses the truth, the corrected one does not."""

import json
import random
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_scores
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.calibrate import calibrate
from regrade.judging.labels.sheet import write_sheet
from regrade.scoring.score import score_answers
from tests.judged import fill, open_task, read_in, rows_of
from tests.judging.running import run_judge
from tests.judging.scripted import ScriptedJudge, candidates
from tests.stored import again

ANSWERS, LABELS = 400, 120
SENSITIVITY, SPECIFICITY = 0.95, 0.7


def erring(texts: dict[str, str]) -> str:
    """Verdict of a judge that errs on answers at random, on the same ones each time."""
    right = texts["answer"] == f"It is {texts['reference']}."
    draw = random.Random(texts["answer"] + texts["reference"]).random()
    says_right = draw < SENSITIVITY if right else draw >= SPECIFICITY
    return json.dumps({"explanation": "As it seems.", "verdict": "A" if says_right else "B"})


@pytest.fixture
def judged(tmp_path: Path) -> AnswerSet:
    texts = [
        f"It is {number if number % 5 > 1 else number + 1000}." for number in range(1, ANSWERS + 1)
    ]
    candidates(LocalRepository(tmp_path / "answers"), texts)
    answers = run_judge(ScriptedJudge(erring), tmp_path, rubric="correct")
    scored = score_answers(answers, "judge")
    publish_scores(answers.repository, [(answers, scored.file, scored.table)])
    return again(answers)


@pytest.mark.slow
def test_the_corrected_interval_covers_the_truth_that_the_judge_misses(
    judged: AnswerSet, tmp_path: Path
) -> None:
    truth = 0.6
    task = open_task(judged)
    path = tmp_path / "labels.csv"
    write_sheet(path, [task], task.sample(LABELS, 0), 0, show_verdict=False)
    rows = rows_of(path)
    for row in rows:
        row["label"] = "correct" if row["answer"] == f"It is {row['target']}." else "incorrect"
    fill(path, rows)
    read_in(path, task)
    [file] = again(judged).scores()

    found = calibrate(Result(again(judged), file))

    overall = file.summary.overall
    assert (overall.n, found.method, found.labelled) == (ANSWERS, "PPI++", LABELS)
    assert overall.accuracy_low > truth
    assert found.low < truth < found.high
    assert found.sensitivity == pytest.approx(SENSITIVITY, abs=0.07)
    assert found.specificity == pytest.approx(SPECIFICITY, abs=0.2)  # of about 48 wrong answers
