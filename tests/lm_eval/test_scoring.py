"""Scores of stored answers are those that lm_eval gives the same responses, question by question."""

import random
from collections.abc import Mapping
from functools import partial
from itertools import cycle
from typing import Any

import datasets
import pytest

from regrade.lm_eval.documents import document_of
from regrade.lm_eval.index import TaskEntry
from regrade.lm_eval.plan import plan_tasks
from regrade.lm_eval.requests import ask
from regrade.lm_eval.scoring import StoredQuestion, TaskScores
from tests.benchmarks.files import shared
from tests.lm_eval import rows
from tests.lm_eval.comparing import differences, ours, scored, theirs
from tests.lm_eval.equality import real_splits
from tests.memory import taking_at_most
from tests.scorers.test_any_text import MEMORY, mutated, real_answers
from tests.timing import taking_less_than

Index = Mapping[str, TaskEntry]
pytestmark = pytest.mark.filterwarnings("ignore")
"""Warnings of lm_eval's own run, which is the reference."""


@pytest.fixture(autouse=True)
def _their_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", rows.load_dataset)
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")


@pytest.mark.parametrize("spec", rows.QUICK)
def test_every_number_is_that_of_the_harness(spec: str, index: Index) -> None:
    compared, different = differences(ours(spec, index), theirs(spec, index))

    assert different == []
    assert compared >= 7


@pytest.mark.slow
@pytest.mark.usefixtures("nltk_data")
@pytest.mark.parametrize("spec", [*rows.STORED, *rows.SLOW])
def test_every_number_of_further_tasks_is_that_of_the_harness(spec: str, index: Index) -> None:
    test_every_number_is_that_of_the_harness(spec, index)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["gsm8k", "mmlu"])
def test_every_number_of_whole_benchmarks_is_that_of_the_harness(
    spec: str, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = real_splits(shared(spec))

    def load_dataset(path: str, name: str | None = None, **_: object) -> Any:
        return splits[path, name]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)

    compared, different = differences(
        ours(spec, index, lambda path, name, _: splits[path, name]), theirs(spec, index)
    )

    assert different == []
    assert compared > (2 * 1_319 if spec == "gsm8k" else 14_042)


GENERATED = (
    *("gsm8k", "gsm8k_cot_llama", "gsm8k_cot_self_consistency", "mmlu_pro_math"),
    *("bbh_cot_zeroshot_boolean_expressions", "triviaqa"),
)
"""Tasks with filters of all kinds that generate texts."""


@pytest.mark.parametrize(
    "count", [20, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
@pytest.mark.parametrize("spec", GENERATED)
def test_changed_answers_are_scored_by_filters_and_metrics(
    spec: str, index: Index, count: int
) -> None:
    plan, texts = plan_tasks(spec, index), real_answers()
    [task] = ask(plan, rows.datasets, chat=False)
    drawn = random.Random(count)
    with taking_at_most(MEMORY):
        for start in range(0, count, 100):
            number = min(count - start, 100)
            questions = []
            for n, question in zip(range(number), cycle(task.questions), strict=False):
                said = [mutated(drawn.choice(texts), start + n, texts) for _ in range(task.repeats)]
                questions.append(StoredQuestion(n, document_of(question.document), [said]))
            grade = partial(scored, TaskScores(plan), task, questions)
            found = taking_less_than(5 + 0.1 * number * task.repeats, grade)
            assert len(found) == number
            for question in found:
                assert all(0 <= value <= 1 for value in question.metrics.values())
