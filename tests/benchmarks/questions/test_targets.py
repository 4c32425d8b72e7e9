import math
from decimal import Decimal
from typing import Any

import pytest

from regrade.benchmarks.questions.targets import (
    RowError,
    choice_letters,
    choice_texts,
    number_target,
    text_target,
    usable_choice_letters,
)

FOUR = ("w", "x", "y", "z")


@pytest.mark.parametrize(
    ("value", "target"),
    [
        *(("18", "18"), (" 2,125 ", "2125"), ("1,450,000", "1450000"), ("-10", "-10"), ("+7", "7")),
        *(("0.50", "0.50"), (".5", ".5"), ("3/4", "3/4"), ("$1,200.50", "$1200.50"), ("5%", "5%")),
        *(("It is 12.\n#### 1,000", "1000"), ("#### 1 is not the last\n#### 2", "2")),
        *((7, "7"), (-3, "-3"), (2.5, "2.5"), (1e21, "1000000000000000000000")),
        (Decimal("1.10"), "1.10"),
    ],
)
def test_a_number_is_a_target_without_its_commas(value: Any, target: str) -> None:
    assert number_target(value) == target


@pytest.mark.parametrize(
    "value",
    [
        *("", "twelve", "12 apples", "1,2", "1.2.3", "#### ", "####", "٣", "-", "$"),
        *(None, True, float("nan"), float("inf"), ["1"], {}),
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
        (math.nan, None),
        (Decimal("NaN"), None),
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
    [
        *([0, 3], [0.0, 3.0], ["0", "3"], ["A", "D"], ["a", " d "], ["w", "z"], [" w", "z\n"]),
        *(["(A)", "(d)"], ["A", "D."], ["[0]", "[3]"], [[0], [3]], ["['A']", '["D"]']),
        *(["[A]", "[D]"], [["w"], "['z']"]),
    ],
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


@pytest.mark.parametrize(
    "target", ["()", "(AB)", "(1)", "[0, 3]", [0, 3], [], "[4]", "A or B", "[]"]
)
def test_what_only_resembles_a_letter_or_a_list_of_one_is_refused(target: Any) -> None:
    with pytest.raises(RowError):
        choice_letters([target], [FOUR])


def test_white_space_tells_two_choices_apart_that_differ_by_nothing_else() -> None:
    assert choice_letters(["x "], [("x", "x ", "y")]) == ["B"]


def test_a_row_whose_target_fits_no_choice_is_not_usable_and_the_others_are() -> None:
    targets = ["A", None, "(D)", "E", "[B]"]
    assert usable_choice_letters(targets, [FOUR] * 5) == ["A", None, "D", None, "B"]
    assert usable_choice_letters([0, -1, 3], [FOUR] * 3) == ["A", None, "D"]
    assert usable_choice_letters([None, None], [FOUR] * 2) == [None, None]


@pytest.mark.parametrize(
    ("targets", "row"),
    [
        ([1, 2, 3, 4], 3),  # counts from 1: 0-based letters would be wrong in every row
        ([None, "1", "2", "4"], 3),
        (["A", "A bird", "B bird"], 1),  # only a third can be read
        (["A", "w"], 1),  # a half each
    ],
)
def test_targets_that_may_mean_something_else_are_refused(targets: list[Any], row: int) -> None:
    with pytest.raises(RowError) as error:
        usable_choice_letters(targets, [FOUR] * len(targets))
    assert error.value.row == row


def test_most_rows_with_two_meanings_are_refused_with_the_row_in_the_column() -> None:
    with pytest.raises(RowError, match="means choice C if it is an index") as error:
        usable_choice_letters([None, "2", "1", "Z"], [("2", "1", "0")] * 4)
    assert error.value.row == 1
