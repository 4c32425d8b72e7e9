"""Requests of tasks."""

import random
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from datasets import Dataset

from regrade.lm_eval.documents import document_of, document_text
from regrade.lm_eval.index import TaskEntry, entries_of
from regrade.lm_eval.plan import plan_tasks
from regrade.lm_eval.requests import ask
from regrade.settings.errors import SettingsError
from tests.lm_eval.rows import datasets

Index = Mapping[str, TaskEntry]


def test_a_started_answer_is_the_last_message_of_a_chat(index: Index) -> None:
    (task,) = ask(plan_tasks("arc_challenge_chat", index), datasets, chat=True)

    (prompt,) = task.questions[0].contexts
    assert isinstance(prompt, tuple)
    assert prompt[-1]["role"] == "assistant"


def test_contexts_differ_where_the_choices_stand_in_them(index: Index) -> None:
    (task,) = ask(plan_tasks("winogrande", index), datasets)

    question = task.questions[0]
    assert len(set(question.contexts)) == 2
    assert len(set(question.continuations)) == 1
    assert task.multiple_inputs == 2


def test_requests_do_not_depend_on_the_state_of_random_numbers_and_leave_it(index: Index) -> None:
    plan = plan_tasks("gsm8k", index)
    first = ask(plan, datasets)
    random.random()
    before = random.getstate()

    assert ask(plan, datasets) == first
    assert random.getstate() == before


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"a": [{"b": (1, 2)}]}, "a value of type 'tuple' in 'a[0].b'"),
        ({"picture": b"x"}, "a value of type 'bytes' in 'picture'"),
        ({"a": {1: "x"}}, "the key 1 in 'a'"),
    ],
)
def test_a_document_that_json_would_change_is_refused(
    document: dict[str, object], problem: str
) -> None:
    with pytest.raises(SettingsError) as error:
        document_text(document, "mine", 3)

    assert str(error.value) == (
        f"Task 'mine' cannot be run: document 3 has {problem}, which JSON cannot hold, so that its answers could not be "
        "scored later."
    )


def test_a_document_comes_back_as_it_was() -> None:
    document = {"é": [None, 1, 1.5, "½", {"x": True}], "z": float("inf"), "a": "\ud800"}

    assert document_of(document_text(document, "mine", 0)) == document


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("humaneval", "its scoring runs the model's code without a sandbox"),
        ("squad_completion", "it is a Python class with its own way of asking"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(name: str, reason: str, index: Index) -> None:
    with pytest.raises(SettingsError) as error:
        plan_tasks(name, index)

    assert f"cannot be run: {reason}" in str(error.value)
    assert str(error.value).count(". ") == 0


def test_an_unknown_task_is_answered_with_close_names(index: Index) -> None:
    with pytest.raises(SettingsError, match="Did you mean 'gsm8k'"):
        plan_tasks("gsm8", index)


def test_random_choices_of_documents_are_drawn_once_and_equal_each_time(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "task: mine\ndataset_path: x\ntest_split: test\noutput_type: multiple_choice\n"
        "process_docs: !function code.shuffled\ndoc_to_text: q\ndoc_to_target: gold\n"
        "doc_to_choice: choices\n"
    )
    (tmp_path / "code.py").write_text(
        "import random\n\n"
        "def shuffled(split):\n"
        "    def shuffle(doc):\n"
        "        choices = ['right', 'b', 'c', 'd', 'e', 'f']\n"
        "        random.shuffle(choices)\n"
        "        return {'choices': choices, 'gold': choices.index('right')}\n"
        "    return split.map(shuffle)\n"
    )
    split = Dataset.from_list([{"q": f"{n}?"} for n in range(20)])
    plan = plan_tasks("mine", {entry.name: entry for entry in entries_of(tmp_path)})

    (task,) = ask(plan, lambda *_: {"test": split})
    (again,) = ask(plan, lambda *_: {"test": split})

    for question in task.questions:
        choices = document_of(question.document)["choices"]
        assert question.continuations == tuple(f" {choice}" for choice in choices)
    assert again == task
    assert len({question.continuations for question in task.questions}) > 10


def test_threads_that_work_with_the_harness_leave_stdout_as_it_was(index: Index) -> None:
    plan, before = plan_tasks("gsm8k", index), sys.stdout

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: ask(plan, datasets), range(8)))

    assert sys.stdout is before
    assert all(result == results[0] for result in results)
