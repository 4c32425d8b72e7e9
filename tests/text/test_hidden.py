"""Untrusted texts: nothing in them is markup, and nothing is hidden."""

import html
import re
import sys
import unicodedata

import pytest

from regrade.pages.viewer.answer_texts import with_tokens
from regrade.text.hidden import as_html, end_of, is_hidden, marked, one_line
from tests.timing import taking_less_than

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]
BIDIRECTIONAL = list("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ZERO_WIDTH = list("\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\u3164\U000e0041\U000e0101")


def shown(text: str) -> str:
    """The text that a browser shows."""
    return html.unescape(re.sub(r"<[^>]*>", "", str(as_html(text))))


@pytest.mark.parametrize("character", [*CONTROLS, *BIDIRECTIONAL, *ZERO_WIDTH, "\u2028", "\ue000"])
def test_a_hidden_character_is_shown_by_its_code_point(character: str):
    out = str(as_html(f"a{character}b"))
    assert character not in out
    assert shown(f"a{character}b") == f"aU+{ord(character):04X}b"


def test_no_character_of_unicode_breaks_a_page_or_comes_through_hidden():
    characters = [*map(chr, range(0, sys.maxunicode + 1, 7))]
    hidden = {c for c in characters if unicodedata.category(c)[0] == "C" and c not in "\n\t"}
    assert hidden.isdisjoint(as_html("".join(characters)))


@pytest.mark.parametrize(
    "text", ["plain\n\ttext", "日本語 العربية עברית", "é ü ß", "🙂 and ❤\ufe0f", "1 < 2 & 3 > 2"]
)
def test_ordinary_text_is_shown_as_it_is(text: str):
    assert shown(text) == text


def test_markup_is_text():
    out = str(as_html("</pre><script>alert(1)</script><img src=x onerror=alert(1)>"))
    assert "<" not in out


def test_a_space_that_is_none_of_the_keyboard_is_named():
    assert 'title="U+00A0 NO-BREAK SPACE"' in str(as_html("72\u00a0%"))


def test_a_variation_selector_is_hidden_unless_it_follows_an_emoji():
    assert "U+FE0F" in as_html("a\ufe0f")
    assert "U+FE0F" not in as_html("❤\ufe0f")
    assert is_hidden("\ufe01")


def test_the_part_that_was_read_is_marked_and_nothing_else():
    assert marked("a 72 b", (2, 4)) == "a <mark>72</mark> b"
    assert marked("<b>72</b>", (3, 5)) == "&lt;b&gt;<mark>72</mark>&lt;/b&gt;"


@pytest.mark.parametrize("place", [(5, 5), (9, 20), (-3, 0), (4, 2)])
def test_a_part_that_is_not_in_the_text_marks_nothing(place: tuple[int, int]):
    assert "<mark" not in marked("72 b", place)


def test_a_line_shows_the_start_or_the_marked_part():
    text = "x" * 500 + "72" + "y" * 500
    assert one_line(text, 100) == "x" * 100 + "…"
    line = one_line(text, 100, (500, 502))
    assert "<mark>72</mark>" in line
    assert line.startswith("…x")
    assert len(re.sub("<[^>]*>", "", line)) == 102
    assert one_line("a\nb\tc", 100) == "a b c"
    assert end_of("abc", 2) == "…bc"


TOKENS = "<|im_start|> <|eot_id|> </s> [INST] <start_of_turn> <\uff5cUser\uff5c> <<SYS>> <think>"


@pytest.mark.parametrize("token", TOKENS.split())
def test_a_special_token_is_dim_and_still_text(token: str):
    out = str(with_tokens(f"a {token} b"))
    assert f'<span class="tok">{html.escape(token)}</span>' in out


def test_a_large_text_of_hidden_characters_takes_a_moment():
    taking_less_than(2, lambda: as_html("\u202e" * 100_000))
