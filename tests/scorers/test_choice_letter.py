import pytest

from regrade.settings.errors import SettingsError
from tests.scorers.batches import generations, read, scored

CHOICES = ("a bird", "a plane", "a superhero", "none of these")


def test_letters_end_with_the_choices_of_their_own_row() -> None:
    choices = [["x", "y"], ["x", "y", "z"], [f"choice {i}" for i in range(10)]]

    scores = scored("choice_letter", generations(["C", "C", "J"], ["A", "C", "J"], choices=choices))

    assert scores["extracted"].to_pylist() == [None, "C", "J"]
    assert scores["value"].to_pylist() == [0.0, 1.0, 1.0]


def test_a_text_that_two_choices_share_names_neither() -> None:
    assert read("choice_letter", "x", "A", choices=["same", "same"])["outcome"] == "unparsed"
    assert read("choice_letter", "same", "A", choices=["same", "same"])["outcome"] == "unparsed"


def test_a_letter_counts_as_a_letter_where_choices_are_letters() -> None:
    assert read("choice_letter", "B", "B", choices=["B", "A"])["value"] == 1.0


def test_every_gold_letter_is_right_in_every_format() -> None:
    formats = ["{}", " {}", "({})", "The answer is ({}).", "Answer: {}", "\\boxed{{{}}}", "{}. foo"]
    letters = "ABCDEFGHIJ"
    pairs = [(pattern.format(letter), letter) for pattern in formats for letter in letters]
    texts, targets = zip(*pairs, strict=True)

    scores = scored("choice_letter", generations(texts, targets, choices=[*"0123456789"]))

    assert scores["value"].to_pylist() == [1.0] * len(pairs)


@pytest.mark.parametrize("target", ["B", "b", " B ", "(B)", "(b)", "[B]", "B.", "B)", "B:"])
def test_a_target_may_be_written_in_any_usual_form(target: str) -> None:
    assert read("choice_letter", "B", target, choices=CHOICES)["value"] == 1.0
    assert read("choice_letter", "C", target, choices=CHOICES)["value"] == 0.0


@pytest.mark.parametrize("target", ["AB", "(1)", "a plane", "12", "1", ""])
def test_no_other_target_is_taken_for_a_letter(target: str) -> None:
    with pytest.raises(SettingsError, match="'choice_letter' compares with the letter"):
        read("choice_letter", "B", target, choices=CHOICES)


def test_the_first_or_the_last_statement_counts_as_the_scorer_says() -> None:
    text = "The answer is (A). Wait. The answer is (C).\nSo \\boxed{B}, no, \\boxed{D}."

    assert read("choice_letter", text, "A", choices=CHOICES)["extracted"] == "D"
    assert read("choice_letter_first", text, "A", choices=CHOICES)["extracted"] == "B"


def test_without_choices_any_letter_is_read_and_with_them_only_theirs() -> None:
    text = "The answer is C."

    assert read("choice_letter", text, "C")["extracted"] == "C"
    assert read("choice_letter", text, "C", choices=["x", "y", "z"])["extracted"] == "C"
    assert read("choice_letter", text, "A", choices=["x", "y"])["outcome"] == "unparsed"


@pytest.mark.parametrize(
    "text", ["So \\boxed{A}. That is <answer>B</answer>", '<answer>A</answer>, as {"answer": "B"}']
)
def test_of_two_kinds_of_slots_the_place_decides(text: str) -> None:
    assert read("choice_letter", text, "B")["extracted"] == "B"
    assert read("choice_letter_first", text, "B")["extracted"] == "A"
