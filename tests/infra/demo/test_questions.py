"""The demo questions: reproducible, correct, and not in the training data."""

import collections
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.demo import questions
from infra.demo.four_choices import ANIMALS, Item
from infra.demo.prompts import ARITHMETIC_PROMPT, CHOICE_CHAT_PROMPT, CHOICE_PROMPT

TRAINING_ROWS = 20_000

ARITHMETIC = questions.arithmetic_test_questions()
CHOICE = questions.choice_test_questions()


def _as_asked(item: Item) -> str:
    return f"{item['question']} {sorted(item['choices'])}"


def test_regenerating_the_questions_gives_the_committed_files() -> None:
    assert questions.main(["--check"]) == 0


def test_the_check_fails_on_a_changed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "DATA", tmp_path)
    assert questions.main([]) == 0
    with (tmp_path / "choice.jsonl").open("a") as file:
        file.write("\n")
    assert questions.main(["--check"]) == 1


def test_no_test_question_is_among_the_training_questions() -> None:
    arithmetic = itertools.islice(questions.arithmetic_training_questions(), TRAINING_ROWS)
    choice = itertools.islice(questions.choice_training_questions(), TRAINING_ROWS)
    seen = {row["question"] for row in arithmetic} | {_as_asked(item) for item in choice}
    tested = {row["question"] for row in ARITHMETIC} | {_as_asked(item) for item in CHOICE}
    assert not seen & tested


def test_no_question_is_asked_twice() -> None:
    asked = [row["question"] for row in ARITHMETIC] + [_as_asked(item) for item in CHOICE]
    assert len(asked) == len(set(asked)) == 800


def test_every_worked_solution_uses_all_numbers_calculates_right_and_ends_in_its_answer() -> None:
    operations = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
    for row in ARITHMETIC:
        *lines, last = row["answer"].split("\n")
        assert last == f"#### {lines[-1].rpartition('=')[2].rstrip('.')}"
        steps = re.findall(r"(\d+)([-+*])(\d+)=(\d+)\.", row["answer"])
        assert len(steps) == len(lines)
        for left, operator, right, result in steps:
            assert operations[operator](int(left), int(right)) == int(result)
        assert {*re.findall(r"\d+", row["question"])} <= {*re.findall(r"\d+", row["answer"])}


def test_every_subject_has_each_letter_equally_often() -> None:
    counted = collections.Counter((item["subject"], item["answer"]) for item in CHOICE)
    assert len(counted) == 16
    assert set(counted.values()) == {25}


def test_the_four_choices_of_a_question_differ() -> None:
    assert all(len(set(item["choices"])) == 4 for item in CHOICE)


def _is_right_sum(choice: str) -> bool:
    a, b, c = map(int, re.split(r"[+=]", choice))
    return a + b == c


RIGHT: dict[str, Callable[[str, list[str]], bool]] = {
    "animals": lambda choice, _: choice in ANIMALS,
    "sums": lambda choice, _: _is_right_sum(choice),
    "sequences": lambda choice, _: choice.split() == sorted(choice.split(), key=int),
    "comparison": lambda choice, choices: choice == max(choices, key=int),
}


def test_exactly_the_right_choice_is_what_is_asked_for() -> None:
    for item in CHOICE:
        is_right, choices = RIGHT[item["subject"]], item["choices"]
        right = [number for number, choice in enumerate(choices) if is_right(choice, choices)]
        assert right == [item["answer"]]


def test_both_choice_prompts_show_the_same_question_and_choices() -> None:
    body = CHOICE_PROMPT.removesuffix("Answer:")
    assert CHOICE_CHAT_PROMPT.startswith(body)
    assert all(f"choices[{index}]" in body for index in range(4))
    assert "{{ question }}" in body
    assert "{{ question }}" in ARITHMETIC_PROMPT
