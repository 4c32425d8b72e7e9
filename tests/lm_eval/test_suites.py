"""The suite `base` asks its tasks of the harness with the examples that it names, as the harness itself draws them."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from datasets import Dataset

from regrade.lm_eval.index import TaskEntry
from regrade.lm_eval.plan import plan_tasks
from regrade.lm_eval.requests import ask
from regrade.settings.suites import SUITES
from tests.lm_eval.rows import splits

(BASE,) = [suite for suite in SUITES if suite.name == "base"]
MARKS = {
    "arc_challenge": "Question:",
    "gsm8k_cot": "Q:",
    "triviaqa": "Question:",
    "piqa": "Question:",
    "bbh_cot_fewshot": "Q:",
}
"""Begin of a question in the harness' prompts; the other tasks have none."""


def many(path: str, name: str | None, _: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the splits: few questions, and enough other rows for 25 examples."""
    found = {split: list(rows) for split, rows in splits(path, name).items()}
    return {
        split: Dataset.from_list(rows[:2] if split in ("test", "validation") else rows * 6)
        for split, rows in found.items()
    }


@pytest.mark.parametrize("name", [name for name in BASE.benchmarks if name.startswith("lm_eval:")])
def test_a_task_of_the_suite_has_the_examples_that_it_says(
    name: str, index: Mapping[str, TaskEntry]
) -> None:
    task = name.removeprefix("lm_eval:")
    said = re.match(r"(\d+) examples", BASE.forms[name])
    assert said is not None

    asked = ask(plan_tasks(task, index), many, n_shots=BASE.shots.get(name))

    for leaf in asked:
        assert leaf.n_shots == int(said[1])
        context = str(leaf.questions[0].contexts[0])
        if task in MARKS:
            assert context.count(MARKS[task]) == int(said[1]) + 1
        elif said[1] != "0":
            assert context.count("\n\n") == int(said[1])


def test_the_harness_own_examples_of_drop_hold_no_answers_so_that_the_suite_has_none(
    index: Mapping[str, TaskEntry],
) -> None:
    (drop,) = ask(plan_tasks("drop", index), many, n_shots=1)

    assert "?number,date,spans,worker_id,hit_id\n\n" in str(drop.questions[0].contexts[0])
    assert "lm_eval:drop" not in BASE.shots
