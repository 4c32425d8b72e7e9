import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scorers.batches import generations, read, scored


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
