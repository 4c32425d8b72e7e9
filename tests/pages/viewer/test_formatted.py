"""Markdown and formulas: a form for reading, which never becomes markup, a link or an image of the answer's own."""

import re
from importlib.util import find_spec

import pytest

from regrade.pages.viewer.formatted import formatted
from tests.timing import taking_less_than

ALLOWED = re.compile(
    r"</?(?:p|em|strong|code|pre|h[1-6]|ul|ol|li|blockquote|hr|br|table|thead|tbody|tr|th|td|mark|span|math|m[a-z]+)"
    r"(?: (?:start|class|title|id|display|stretchy|fence|style|mathvariant|columnalign)=\"[^\"<>]*\")*(?: /)?>"
)
needs_mathml = pytest.mark.skipif(
    find_spec("latex2mathml") is None, reason="latex2mathml is not installed"
)
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![x](https://evil.example/pixel.png)",
    "<https://evil.example>",
    "[a]: https://evil.example\n\n[a]",
    "```html\n<script>alert(1)</script>\n```",
    '```"><script>\nx\n```',
    "`<b>`",
    "    <b>indented</b>",
    "&#60;script&#62;",
    "&#x202e; and \u202e",
    "| a | b |\n|---|---|\n| <b> | [x](y) |",
    "$\\href{javascript:alert(1)}{x}$",
    "$\\text{<script>alert(1)</script>}$",
    "$\\class{evil}{x} \\style{color:red}{x} \\unicode{x202e}$",
    "\ue000<b>\ue001",
    "\\(\\require{html}\\href{x}{y}\\)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_an_answer_is_markup(text: str):
    out = str(formatted(text))
    left = ALLOWED.sub("", out)
    assert "<" not in left, out
    assert "javascript:" not in "".join(re.findall(r"<[^>]*>", out))
    assert "evil.example" not in "".join(re.findall(r"<[^>]*>", out))
    assert "\u202e" not in out


def test_markdown_has_its_form():
    out = formatted("# Title\n\n**bold** and `code`\n\n- one\n- two\n\n| a |\n|---|\n| 1 |")
    for part in (
        "<h1>Title</h1>",
        "<strong>bold</strong>",
        "<code>code</code>",
        "<li>one</li>",
        "<td>1</td>",
    ):
        assert part in out


def test_a_link_keeps_its_address_as_text():
    assert "[click](https://example.org)" in formatted("[click](https://example.org)")


def test_what_was_read_is_marked_also_inside_of_markdown():
    text = "So it is **72**, **not** 7."
    start = text.index("72")
    assert '<strong><mark id="read">72</mark></strong>' in formatted(text, (start, start + 2))
    assert formatted(text, (start + 1, len(text))).count("<mark") == 0  # Markdown tears it apart


@needs_mathml
def test_a_formula_becomes_mathml():
    for text in ("$\\frac{1}{2}$", "\\(\\frac{1}{2}\\)", "$$\\frac{1}{2}$$", "\\[\\frac{1}{2}\\]"):
        out = formatted(f"so {text}.")
        assert "<mfrac>" in out
        assert "frac{1}" not in out


@needs_mathml
def test_a_formula_in_which_the_answer_was_read_is_marked_whole():
    text = "$x = 72$"
    assert '<mark id="read"><math' in formatted(text, (5, 7))


def test_money_is_no_formula():
    assert "<math" not in formatted("It costs $5 and $6, or $ 7 $.")
    assert "$5 and $6" in formatted("It costs $5 and $6.")


@pytest.mark.parametrize(
    "source", ["\\frac{", "^", "\\begin{array}", "{" * 500, "\\left(" * 50, "_" * 99]
)
def test_a_formula_that_is_none_stays_text(source: str):
    out = formatted(f"${source}$")
    assert "<math" in out or source[:3] in out.replace("&#34;", '"')


@pytest.mark.parametrize(
    "text",
    [
        "[" * 30_000,
        "> " * 20_000,
        "`" * 50_000,
        "*a **b " * 8_000,
        "$" * 50_000,
        "\\(" * 30_000,
        "- " * 20_000,
        "|a" * 20_000 + "\n" + "|-" * 20_000,
    ],
)
def test_no_text_takes_long(text: str):
    taking_less_than(8, lambda: formatted(text))


def test_a_text_beyond_the_limit_is_shown_as_it_is():
    assert str(formatted("**a**" * 30_000)).startswith("<pre>**a**")
