import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scorers.batches import generations, read, scored


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Paris", "Paris"),
        ("Paris", " Paris"),  # white space around the target is ignored
        (" paris \n", "Paris"),
        ("Paris.", "Paris"),
        ('"Paris"', "Paris"),
        ('**"Paris."**', "Paris"),
        ("\N{LEFT DOUBLE QUOTATION MARK}Paris\N{RIGHT DOUBLE QUOTATION MARK}", "Paris"),
        ("`Paris`", "Paris"),
        ("_Paris_", "Paris"),
        ("New\n  York", "new york"),
        ("U.S.A.", "U.S.A."),
        ("...", "..."),
        (".", "."),
        ("**", "**"),
        ("<think>London?</think>\nParis", "Paris"),
        ("5", "5"),
        ("{1,2}", "{1,2}"),
        ("\N{LATIN CAPITAL LETTER E WITH ACUTE}t\N{LATIN SMALL LETTER E WITH ACUTE}", "été"),
    ],
)
def test_what_says_the_same_is_right(text: str, target: str) -> None:
    assert read("exact", text, target)["value"] == 1.0


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("25", "5"),
        ("5", "25"),
        ("{1,1,2}", "{1,2}"),
        ("It is Paris", "Paris"),
        ("Paris", "Paris, France"),
        ("New York", "NewYork"),
        ("Paris!", "Paris"),
        ("5.0", "5"),
    ],
)
def test_what_says_something_else_is_wrong(text: str, target: str) -> None:
    score = read("exact", text, target)

    assert (score["outcome"], score["value"]) == ("scored", 0.0)


@pytest.mark.parametrize("text", ["", " \n\t", None, "<think>Paris", "<think>x</think>\n"])
def test_nothing_but_white_space_is_unparsed(text: str | None) -> None:
    assert read("exact", text, "Paris")["outcome"] == "unparsed"


def test_a_long_answer_is_compared_whole_and_kept_in_part() -> None:
    target = "word " * 1000 + "end"

    assert read("exact", target, target)["value"] == 1.0
    assert read("exact", target[:-1], target)["value"] == 0.0
    assert len(read("exact", target, target)["extracted"]) == 200


stated = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text.strip() and "think>" not in text
)


@given(st.lists(stated, min_size=5, max_size=10))
@settings(max_examples=20)
def test_every_gold_target_is_right(targets: list[str]) -> None:
    scores = scored("exact", generations([f" {target}\n" for target in targets], targets))

    assert scores["value"].to_pylist() == [1.0] * len(targets), targets


@pytest.mark.parametrize(
    "marks",
    ["*** ***", "** **", "* *", "__ __", "_ _", "` `", '" "', "' '", "“ ”", "‘ ’", "« »"],  # noqa: RUF001
)
def test_marks_around_the_whole_text_do_not_count(marks: str) -> None:
    before, after = marks.split()

    assert read("exact", f"{before}Paris{after}.", "Paris")["value"] == 1.0
    assert read("exact", f"{before}Paris", "Paris")["value"] == 0.0
