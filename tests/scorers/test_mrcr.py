"""The scorer of MRCR against the code of the dataset's card."""

import json
from difflib import SequenceMatcher
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrade.scorers.mrcr import ratio
from regrade.settings.errors import SettingsError
from tests.scorers.batches import read
from tests.timing import taking_less_than

START = "aYooSG8CQg"
TARGET = (
    START
    + "Tapirs, tapirs, you are so fine, "
    + "with a nose that is long and a coat that is mine. " * 9
)


def graded(text: str, doc: object = None) -> dict[str, object]:
    document = json.dumps({"random_string_to_prepend": START} if doc is None else doc)
    return read("mrcr", text, TARGET, doc=document)


def card(answer: str, target: str) -> float:
    if not answer.startswith(START):
        return 0.0
    pair = answer.removeprefix(START), target.removeprefix(START)
    return float(SequenceMatcher(None, *pair).ratio())


@pytest.mark.parametrize(
    "text",
    [
        *(TARGET, TARGET[:-40], TARGET.replace("tapirs", "whales"), START, f"{START}Another poem."),
        *(TARGET.removeprefix(START), f"Here it is: {TARGET}"),
    ],
)
def test_an_answer_has_the_grade_of_the_card(text: str) -> None:
    assert graded(text)["value"] == card(text, TARGET)


def test_a_thought_and_white_space_before_the_answer_do_not_count() -> None:
    assert graded(f"<think>{START}?</think>\n\n{TARGET}")["value"] == 1.0


def test_an_answer_without_the_random_text_is_wrong_and_unparsed() -> None:
    row = graded("Tapirs, tapirs")

    assert (row["value"], row["outcome"], row["extracted"]) == (0.0, "unparsed", None)


def test_a_question_without_the_random_text_is_refused() -> None:
    with pytest.raises(SettingsError, match="random_string_to_prepend"):
        graded(TARGET, {"other": 1})


@given(st.text("abc \n", max_size=300), st.text("abc \n", max_size=300))
def test_texts_of_usual_length_have_the_ratio_of_difflib(answer: str, target: str) -> None:
    assert ratio(answer, target) == SequenceMatcher(None, answer, target).ratio()


def test_no_answer_takes_longer_than_seconds() -> None:
    for answer in ("ab" * 1_000_000, "a" * 200_000, "abcdefgh" * 50_000):
        assert 0 <= taking_less_than(10, partial(ratio, answer, "ab" * 99)) < 0.1


def test_the_longest_equal_part_counts_where_work_ends() -> None:
    assert ratio("tapir" * 9 + "xyz", "tapir" * 9 + "zyx", most=460) == 90 / 96
