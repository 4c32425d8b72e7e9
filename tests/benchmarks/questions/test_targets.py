from decimal import Decimal
from typing import Any

import pytest

from regrade.benchmarks.questions.targets import (
    RowError,
    choice_letters,
    choice_texts,
    number_target,
    text_target,
)

FOUR = ("w", "x", "y", "z")


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("18", "18"),
        (" 2,125 ", "2125"),
        ("1,450,000", "1450000"),
        ("-10", "-10"),
        ("+7", "7"),
        ("0.50", "0.50"),
        (".5", ".5"),
        ("3/4", "3/4"),
        ("$1,200.50", "$1200.50"),
        ("5%", "5%"),
        ("It is 12.\n#### 1,000", "1000"),
        ("#### 1 is not the last\n#### 2", "2"),
        (7, "7"),
        (-3, "-3"),
        (2.5, "2.5"),
        (1e21, "1000000000000000000000"),
        (Decimal("1.10"), "1.10"),
    ],
)
def test_a_number_is_a_target_without_its_commas(value: Any, target: str) -> None:
    assert number_target(value) == target


@pytest.mark.parametrize(
    "value",
    [
        "",
        "twelve",
        "12 apples",
        "1,2",
        "1.2.3",
        "#### ",
        "####",
        "٣",
        "-",
        "$",
        None,
        True,
        float("nan"),
        float("inf"),
        ["1"],
        {},
    ],
)
def test_what_is_not_a_number_is_no_target(value: Any) -> None:
    assert number_target(value) is None


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("Paris", "Paris"),
        (" a ", " a "),
        (3, "3"),
        (" ", None),
        (None, None),
        (True, None),
        (["a"], None),
    ],
)
def test_a_text_target_is_kept_as_it_stands(value: Any, target: str | None) -> None:
    assert text_target(value) == target


def test_choices_are_texts_or_numbers() -> None:
    assert choice_texts(0, ["None", 2, 2.5]) == ("None", "2", "2.5")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("A, B", "the choices are 'A, B'; expected a list of 2 to 26 texts"),
        (None, "the choices are None"),
        (["only"], "there are 1 choices; expected 2 to 26"),
        (["x"] * 27, "there are 27 choices; expected 2 to 26"),
        (["a", None], "choice B is None; expected a text"),
        (["a", " "], "choice B is ' '; expected a text"),
    ],
)
def test_what_is_no_list_of_choices_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(RowError) as error:
        choice_texts(5, value)

    assert error.value.row == 5
    assert problem in error.value.problem


@pytest.mark.parametrize(
    "targets",
    [[0, 3], [0.0, 3.0], ["0", "3"], ["A", "D"], ["a", " d "], ["w", "z"]],
    ids=["index", "whole float", "index as text", "letter", "small letter", "text"],
)
def test_a_target_is_an_index_a_letter_or_a_text(targets: list[Any]) -> None:
    assert choice_letters(targets, [FOUR, FOUR]) == ["A", "D"]


def test_the_way_is_decided_by_the_whole_column() -> None:
    # Row 0 alone could also be a letter.
    assert choice_letters(["A", "z"], [("B", "A"), FOUR]) == ["B", "D"]


@pytest.mark.parametrize(
    ("targets", "row", "problem"),
    [
        ([0, 4], 1, "the target 4 is not an index of its choices"),
        ([0, -1], 1, "the target -1 is not an index of its choices"),
        ([0, True], 1, "the target True is not an index"),
        ([0, 1.5], 1, "the target 1.5 is not an index"),
        (["A", None], 1, "the target None is not a letter of its choices, as in the rows before"),
        (["A", "E"], 1, "a letter from A to D"),
        (["w", "v"], 1, "the target 'v' is not the text of one choice"),
        (["A", 1], 1, "the target 1 is not a letter of its choices, as in the rows before"),
    ],
)
def test_a_target_that_fits_no_choice_is_refused(
    targets: list[Any], row: int, problem: str
) -> None:
    with pytest.raises(RowError) as error:
        choice_letters(targets, [FOUR] * len(targets))

    assert error.value.row == row
    assert problem in error.value.problem


def test_a_text_that_is_two_choices_is_refused() -> None:
    with pytest.raises(RowError, match="it is the text of 2"):
        choice_letters(["x"], [("x", "x", "y")])


def test_a_column_with_two_meanings_is_refused() -> None:
    with pytest.raises(RowError) as error:
        choice_letters(["1", "2"], [("0", "1", "2"), ("1", "2", "3")])

    assert "means choice C if it is an index of its choices, and choice B" in error.value.problem


def test_two_meanings_that_agree_are_one() -> None:
    assert choice_letters(["A", "B"], [("A", "B"), ("A", "B")]) == ["A", "B"]
