"""Scorers of questions about images: relaxed accuracy, ANLS, OCRBench, MMMU, MathVista, and letters beside words."""

import json

import pytest

from regrade.scorers.mathvista import is_number
from regrade.scorers.mmmu import numbers, stated
from regrade.settings.errors import SettingsError
from tests.scorers.batches import generations, read, scored

FORMULAS = "Handwritten Mathematical Expression Recognition"
VALUES: dict[str, list[tuple[str, str, float]]] = {
    "relaxed_accuracy": [  # a number may be five percent off
        ("14", "14", True),
        ("14.7", "14", True),
        ("14.71", "14", False),
        ("13.3", "14", True),
        ("-14", "14", False),
        ("12%", "0.12", True),
        ("12%", "12", False),
        ("12", "12.5%", False),
        ("0.12", "12.5%", True),
        ("0", "0", True),
        ("0.0", "0", False),
        ("1,400", "1400", False),
        ("yes", "Yes", True),
        ("Yes.", "Yes", True),
        ("U.S.", "U.S.", True),
        ("Yes it is", "Yes", False),
        ("The answer is 14.2.", "14", True),
        ("Let us see.\nAnswer: **Blue**", "blue", True),
        ('{"answer": "57%"}', "0.57", True),
        ("b", '["a", "B"]', True),
        ("\\boxed{12\\%}", "0.12", True),
        ("\\boxed{12\\%}", "12", False),
        ("\u221214", "-14", True),
        ("\u221214", "14", False),
        ("nan", "nan", False),
        ("inf", "14", False),
        ("9" * 400, "14", False),
    ],
    "anls": [  # the similarity to the nearest accepted text
        ("Paris", "Paris", 1.0),
        ("paris  \n", "Paris", 1.0),
        ("pari", "Paris", 0.8),
        ("Pa", "Paris", 0.0),
        ("abcd", "abxy", 0.5),
        ("abcdef", "abwxyz", 0.0),
        ("<think>London?</think>\n\nParis", "Paris", 1.0),
        ("The page says so.\n**Answer:** Paris", "Paris", 1.0),
        ("\\boxed{Paris}", "Paris", 1.0),
        ('{"answer": "Paris"}', "Paris", 1.0),
        ('{"answer": "12\\" caf\\u00e9"}', '12" caf\u00e9', 1.0),
        ("{'answer': 'Paris'}", "Paris", 1.0),
        ('<answer>"Paris"</answer>', '"Paris"', 1.0),
        ("12 Main St\nNew York", "12 main st new york", 1.0),
        ("Philip Morris Inc.", "Philip Morris Inc.", 1.0),
        ("itc", '["ITC Limited", "ITC"]', 1.0),
        ("ß", "ss", 0.0),
        ("Paris is the capital of France, as anyone can read at the top of it.", "Paris", 0.0),
    ],
    "mmmu": [  # open questions follow the authors' rule
        ("551", "551", True),
        ("So the result is 551 W.", "551", True),
        ("The value is 551.004", "551", True),
        ("The value is 551.01", "551", False),
        ("x = 5\ny = 551", "551", True),
        ("It is high\nx = 551\nthat is all", "551", False),  # `=` counts in the last line only
        ("It is 1,551", "1551", True),
        ("The answer is a transformer", "Transformer", True),
        ("The answer is a transformer\n", "former", True),
        ("b", "B", True),
        ("the answer is b or c", "b", True),
        ("the gain is 1.5e3", "1500", True),
        ("24/7", '["24/7", "3.429"]', True),
        ("roughly 3.43", '["24/7", "3.429"]', True),
    ],
    "mathvista": [  # a number has the decimals of its target
        ("14", "14", True),
        ("It moves 14.9 m.", "14", True),
        ("It moves 15 m.", "14", False),
        ("-14.9", "-14", True),
        ("1.24", "1.2", True),
        ("1.26", "1.2", False),
        ("The answer is 3/2.", "1.50", True),
        ("1.506", "1.50", False),
        ("[2007, 2008]", "[2007, 2008]", True),
        ("Answer: [2007,2008]", "[2007, 2008]", True),
        ("[2008, 2007]", "[2007, 2008]", False),
        ("no number", "14", False),
        (
            "It costs $1,000.",
            "1,000",
            True,
        ),  # an equal number is right, however the target is written
        ("It costs $1,001.", "1,000", False),
        ("1/2", "1/2", True),
    ],
}


@pytest.mark.parametrize(
    ("scorer", "text", "target", "value"),
    [(scorer, *case) for scorer, cases in VALUES.items() for case in cases],
)
def test_an_answer_has_the_value_that_its_scorer_gives(
    scorer: str, text: str, target: str, value: float
) -> None:
    assert read(scorer, text, target)["value"] == pytest.approx(float(value))


def test_several_lines_without_a_marker_are_unparsed() -> None:
    row = read("relaxed_accuracy", "I see bars.\nMany of them.", "14")

    assert (row["value"], row["outcome"]) == (0.0, "unparsed")


@pytest.mark.parametrize(
    ("text", "target", "subset", "is_right"),
    [
        ("The image says CENTRE.", '["Centre"]', "Regular Text Recognition", True),
        ("cen tre", '["Centre"]', "Regular Text Recognition", False),
        ("On 1/8/1993", '["1/8/93", "1/8/1993"]', "Doc-oriented VQA", True),
        ("two\nlines", "TWO LINES", "Doc-oriented VQA", True),
        ("\\frac{1}{2}X", "\\frac { 1 } { 2 } X", FORMULAS, True),
        ("\\frac{1}{2}x", "\\frac { 1 } { 2 } X", FORMULAS, False),
    ],
)
def test_an_answer_must_contain_an_accepted_text(
    text: str, target: str, subset: str, is_right: bool
) -> None:
    assert read("ocrbench", text, target, subset=subset)["value"] == is_right


def test_what_an_answer_states_is_shown() -> None:
    row = read("mmmu", "So we add.\nThe result is 5 V", "7")

    assert (row["extracted"], row["outcome"]) == ("5 v", "scored")
    assert stated("Well\nso it is this\nx is 3, y = 4") == ["this", "4"]
    assert numbers("1,234.5 and -2 or 3e5, 4m .5") == ["1,234", "234.5", "-2", "3e5", ".5"]


def test_a_number_that_no_float_holds_is_wrong() -> None:
    assert not is_number("9" * 5_000, "14")
    assert not is_number("9" * 5_000, "1.4")
    assert not is_number("x", "1.4")


@pytest.mark.parametrize("scorer", ["mmmu", "mathvista", "choice_or_text"])
def test_questions_with_choices_are_answered_by_letters_and_others_by_texts(scorer: str) -> None:
    texts = ["The answer is (B).", "7", "A", "Blue", None, "The answer is D."]
    targets = ["B", "7", "C", "[7]", "B", "B"]
    choices: list[list[str]] = [["x", "y"], [], ["x", "y", "z"], [], ["x", "y"], ["x", "y"]]
    batch = generations(texts, targets, choices=choices)

    scores = scored(scorer, batch)

    assert scores["sample_id"].equals(batch["sample_id"])
    assert scores["value"].to_pylist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert scores["extracted"].to_pylist()[:3] == ["B", "7", "A"]
    assert scores["outcome"].to_pylist()[4:] == ["unparsed"] * 2


@pytest.mark.parametrize("scorer", ["relaxed_accuracy", "anls", "ocrbench", "mmmu", "mathvista"])
def test_a_target_of_another_kind_is_refused(scorer: str) -> None:
    targets = {"mathvista": [("far", ())], "mmmu": [(" ", ()), ("7", ("x", "y"))]}
    for target, choices in targets.get(scorer, [(" ", ())]):
        with pytest.raises(SettingsError, match="compares with .* Choose another scorer"):
            read(scorer, "7", target, choices=choices)


def test_half_a_megabyte_of_accepted_texts_is_no_reason_to_wait() -> None:
    target = json.dumps(["word " * 2_000, "x"])

    assert 0.9 < read("anls", "word " * 1_999, target)["value"] <= 1.0
