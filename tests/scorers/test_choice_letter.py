import pytest

from regrade.settings.errors import SettingsError
from tests.scorers.batches import generations, read, scored

CHOICES = ("a bird", "a plane", "a superhero", "none of these")


def test_the_letter_is_read() -> None:
    expected = {
        "B": "B",
        " B": "B",
        "b": "B",
        "B.": "B",
        "(B)": "B",
        "(b)": "B",
        "**B**": "B",
        "$\\boxed{B}$": "B",
        "\\boxed{\\text{B}}": "B",
        "Option B": "B",
        "The answer is (B)": "B",
        "the answer is b.": "B",
        "The answer is B because it flies.": "B",
        "The answer is A because it flies.": "A",
        "The answer is **B**. a plane": "B",
        "Answer: B": "B",
        "Answer: B) a plane": "B",
        "**Answer:** B": "B",
        "Final answer:\n\nB": "B",
        '{"answer": "B"}': "B",
        "The correct option is B.": "B",
        "The best choice is option (B).": "B",
        "(B) a plane": "B",
        "B. a plane": "B",
        "B: a plane": "B",
        "**B.** It has wings.": "B",
        "B\n\nIt has wings.": "B",
        "A. might be, but the answer is (B).": "B",
        "The answer is (A). Wait, no: the answer is (B).": "B",
        "The answer is (B). I hope that this answer is clear.": "B",
        "The answer is (B).\n\nQuestion: And now?\nAnswer: (C)": "B",
        "<think>The answer is (A).</think>The answer is (B).": "B",
        "a plane": "B",
        "A plane.": "B",
        '"a  plane"': "B",
        "None of these": "D",
    }

    scores = scored("choice_letter", generations([*expected], "B", choices=CHOICES))

    assert dict(zip(expected, scores["extracted"].to_pylist(), strict=True)) == expected


def test_no_letter_is_unparsed_and_wrong() -> None:
    texts = [
        "",
        None,
        "A bird flies over the house.",
        "I think so.",
        "The answer is A bird in the hand.",
        "The answer is I believe hard to tell.",
        "The answer is a matter of taste.",
        "The answer is 42.",
        "(a) First, what flies? (b) Then, who?",
        "E",
        "The answer is (Z)",
        "<think>The answer is (B).",
        "Batman",
        "Bananas: many",
        "It's a plane, or a bird.",
    ]

    scores = scored("choice_letter", generations(texts, "B", choices=CHOICES))

    columns = (scores[name].to_pylist() for name in ("extracted", "outcome", "value"))
    assert [*zip(*columns, strict=True)] == [(None, "unparsed", 0.0)] * len(texts)


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
