"""Differences of two answers."""

import re

import pytest

from regrade.pages.viewer.pair_page import difference
from tests.timing import taking_less_than


def test_what_only_one_text_has_is_highlighted():
    found = difference("It is 5 apples.", "It is 6 apples.")
    assert found.base == 'It is <span class="diff">5</span> apples.'
    assert found.candidate == 'It is <span class="diff">6</span> apples.'


def test_nothing_of_a_text_is_lost_or_markup():
    base, candidate = "a <b>\n\u202e c", "a <i>\n\n d"
    found = difference(base, candidate)
    for out, text in ((found.base, base), (found.candidate, candidate)):
        shown = re.sub(r"<[^>]*>", "", str(out)).replace("&lt;", "<").replace("&gt;", ">")
        assert shown == text.replace("\u202e", "U+202E")


def test_equal_texts_have_no_difference():
    found = difference("same", "same")
    assert found.same == 1
    assert "diff" not in found.base


@pytest.mark.parametrize(
    "texts",
    [
        ("a " * 3000, "b a " * 1400),
        ("x\n" * 3000, "y\nx\n" * 1500),
        (
            " ".join(f"w{i % 90}" for i in range(1500)),
            " ".join(f"w{i * 7 % 90}" for i in range(1500)),
        ),
    ],
)
def test_no_two_texts_take_long(texts: tuple[str, str]):
    taking_less_than(4, lambda: difference(*texts))


def test_very_long_texts_are_not_compared():
    assert difference("a\n" * 4000, "b").same is None
