"""Several answers to each question: avg@k with its error, pass@k and maj@k, wherever a person reads results."""

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.results.results import Evaluation, score_result
from regrade.results.tables import headline
from regrade.scoring.score import score_answers
from regrade.settings import SamplingParams
from regrade.stats.metrics import further_averages
from tests.builders import row
from tests.stored import publish, result_of

REPEATS = 4
RIGHT = [4, 4, 3, 3, 2, 1, 1, 0]
"""Right answers of the 4 to each question; the wrong ones are all equal."""


@pytest.fixture
def answers(repository: LocalRepository) -> AnswerSet:
    rows = [
        row(number, "" if repeat < right else "#### 99", repeat=repeat)
        for number, right in enumerate(RIGHT)
        for repeat in range(REPEATS)
    ]
    sampling = SamplingParams(temperature=0.6)
    return publish(repository, rows, repeats=REPEATS, sampling=sampling)


@pytest.fixture
def evaluation(answers: AnswerSet) -> Evaluation:
    result = result_of(answers, score_result(score_answers(answers, "number"), None))
    return Evaluation(answer_sets=(result,), repository=answers.repository.uri)


def test_the_headline_has_the_average_pass_and_majority(evaluation: Evaluation):
    assert headline(evaluation) == (
        "org/tiny: sums avg@4 56.2 ± 13.2 % (n=32, pass@4 87.5 ± 12.5 %, maj@4 62.5 ± 18.3 %)"
    )


def test_pass_at_k_is_that_of_the_largest_k_that_was_scored():
    metrics = {"pass_at_1": 0.5, "pass_at_2": 0.6, "pass_at_4": 0.7, "majority_accuracy": 0.4}

    assert further_averages(metrics, 8) == [("pass@4", 0.7, None), ("maj@8", 0.4, None)]
    assert further_averages({"pass_at_1": 0.5}, 8) == []
    assert further_averages(metrics, 1) == []
