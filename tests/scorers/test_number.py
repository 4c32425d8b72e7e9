from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrade.settings.errors import SettingsError
from tests.scorers.batches import generations, read, scored


@pytest.mark.parametrize("number", ["9" * 3000, "0." + "3" * 3000])
def test_a_number_of_thousands_of_digits_is_read_whole(number: str) -> None:
    assert read("number", number, "72")["extracted"] == number


def test_a_truncated_answer_is_marked_and_still_read() -> None:
    score = read("number", "So far there are 72", "72", finish_reason="length")

    assert (score["truncated"], score["outcome"], score["value"]) == (True, "scored", 1.0)


def test_a_target_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="'number' compares with a number.*'sample-1' is 'B'"):
        scored("number", generations(["1", "2"], ["1", "B"]))


@pytest.mark.parametrize("target", ["10-5", "5 eggs", "about 5", "x = 5", "5, 6", ""])
def test_a_target_with_more_than_a_number_is_refused(target: str) -> None:
    with pytest.raises(SettingsError, match="compares with a number"):
        read("number_strict", "#### 5", target)


FORMATS = (
    *("{}", "#### {}", "The answer is {}.", "It is **${}**", "\\boxed{{{}}}", "A: {}"),
    'so {{"answer": "{}"}}',
)


@given(
    st.decimals(-(10**12), 10**12, places=2).filter(lambda n: not n.is_zero() or not n.is_signed())
)
@settings(max_examples=20)
def test_every_gold_number_is_right_in_every_format(number: Decimal) -> None:
    texts = [template.format(f"{number:,}") for template in FORMATS]

    scores = scored("number", generations(texts, str(number)))  # at once: each call costs patterns

    assert dict(zip(texts, scores["value"].to_pylist(), strict=True)) == dict.fromkeys(texts, 1.0)
