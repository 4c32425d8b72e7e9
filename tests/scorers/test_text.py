import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrade.scorers.extraction.accepted import accepted_texts, stored_target, words
from regrade.settings.errors import SettingsError
from tests.scorers.batches import generations, read, scored


def test_the_score_tells_the_place_of_the_text() -> None:
    text = "So the answer is Rome."

    score = read("text", text, "Rome")

    assert text[score["start"] : score["end"]] == "Rome"


def test_words_lose_case_articles_and_punctuation_unless_nothing_is_left() -> None:
    expected = {"The  Cat": "cat", "the": "the", "A": "a", "...": "...", "Theme": "theme"}
    expected |= {"U.S.A.": "usa", "New\u00a0York\n": "new york"}

    assert words(pa.array([*expected])).to_pylist() == [*expected.values()]


def test_each_row_has_accepted_texts_of_its_own() -> None:
    targets = ['["Paris", "City of Light"]', "Rome", '["Paris", "City of Light"]', "[Rome"]
    answers = ["City of Light", "Paris", "Rome", "[Rome"]

    scores = scored("text", generations(answers, targets))

    assert scores["value"].to_pylist() == [1.0, 0.0, 0.0, 1.0]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
@settings(max_examples=200)
def test_every_list_of_texts_is_read_back_as_it_was_stored(texts: list[str]) -> None:
    assert accepted_texts(stored_target(texts)) == texts


@pytest.mark.parametrize("target", ['["a", 1]', '["a"', "[1]", '["' + "[" * 100_000])
def test_a_target_that_is_no_list_of_texts_is_a_single_text(target: str) -> None:
    assert accepted_texts(target) == [target]


def test_a_blank_target_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="'text' compares with a text.*'sample-1' is ' '"):
        scored("text", generations(["x", "y"], ["x", " "]))


def test_a_long_answer_is_compared_whole_and_kept_in_part() -> None:
    long = "word " * 100 + "end"

    score = read("text", f"<answer>{long}</answer>", long)

    assert score["value"] == 1.0
    assert len(score["extracted"]) == 200
    assert read("text", f"<answer>{long}</answer>", long[:-1])["value"] == 0.0


MARKS = "*_`\"'\u201c\u201d\u2018\u2019\u00ab\u00bb:.,;!$\\{}<>"
markless = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=MARKS),
    min_size=1,
    max_size=30,
).filter(lambda text: any(character.isalnum() for character in text))


@given(st.lists(markless, min_size=5, max_size=10))
@settings(max_examples=20)
def test_a_target_in_a_tag_is_right(targets: list[str]) -> None:
    texts = [f"<answer>{target}</answer>" for target in targets]

    scores = scored("text", generations(texts, [json.dumps([target]) for target in targets]))

    assert scores["value"].to_pylist() == [1.0] * len(targets), targets
