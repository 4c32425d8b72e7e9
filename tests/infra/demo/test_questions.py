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


def _right_choice(item: Item) -> str:
    return item["choices"][item["answer"]]


def _of_subject(subject: str) -> list[Item]:
    return [item for item in CHOICE if item["subject"] == subject]


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


def test_every_worked_solution_ends_in_its_own_answer() -> None:
    for row in ARITHMETIC:
        *steps, last = row["answer"].split("\n")
        assert last == f"#### {steps[-1].rpartition('=')[2].rstrip('.')}"


def test_every_step_of_a_worked_solution_is_calculated_right() -> None:
    operations = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
    for row in ARITHMETIC:
        steps = re.findall(r"(\d+)([-+*])(\d+)=(\d+)\.", row["answer"])
        assert len(steps) == row["answer"].count("\n")
        for left, operator, right, result in steps:
            assert operations[operator](int(left), int(right)) == int(result)


def test_every_number_of_a_word_problem_is_used_in_its_solution() -> None:
    for row in ARITHMETIC:
        given = set(re.findall(r"\d+", row["question"]))
        assert given <= set(re.findall(r"\d+", row["answer"]))


def test_every_subject_has_each_letter_equally_often() -> None:
    counted = collections.Counter((item["subject"], item["answer"]) for item in CHOICE)
    assert len(counted) == 16
    assert set(counted.values()) == {25}


def test_the_four_choices_of_a_question_differ() -> None:
    assert all(len(set(item["choices"])) == 4 for item in CHOICE)


def _is_right_sum(choice: str) -> bool:
    a, b, c = map(int, re.split(r"[+=]", choice))
    return a + b == c


def _goes_up(choice: str) -> bool:
    numbers = [int(number) for number in choice.split()]
    return numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("subject", "is_right"),
    [("animals", ANIMALS.__contains__), ("sums", _is_right_sum), ("sequences", _goes_up)],
)
def test_exactly_the_right_choice_is_what_is_asked_for(
    subject: str, is_right: Callable[[str], bool]
) -> None:
    for item in _of_subject(subject):
        assert [*filter(is_right, item["choices"])] == [_right_choice(item)]


def test_the_right_choice_is_the_largest_number() -> None:
    for item in _of_subject("comparison"):
        assert max(item["choices"], key=int) == _right_choice(item)


def test_both_choice_prompts_show_the_same_question_and_choices() -> None:
    body = CHOICE_PROMPT.removesuffix("Answer:")
    assert CHOICE_CHAT_PROMPT.startswith(body)
    assert all(f"choices[{index}]" in body for index in range(4))
    assert "{{ question }}" in body
    assert "{{ question }}" in ARITHMETIC_PROMPT
