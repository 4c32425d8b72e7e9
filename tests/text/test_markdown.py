"""Blocks as markdown: untrusted texts stay text, wide tables are continued, and long pages end."""

from regrade.text.blocks import (
    Code,
    Commands,
    Details,
    Fold,
    Heading,
    Items,
    Line,
    Link,
    Plot,
    Quote,
    Strong,
    Table,
)
from regrade.text.markdown import markdown


def test_a_table_that_is_too_wide_for_the_page_is_continued_in_a_second_one():
    columns = ("benchmark", "scorer", "accuracy", "n")

    def heads(scorer: str, accuracy: str) -> list[str]:
        page = markdown([Table(columns, [("sums", scorer, accuracy, "9")])])
        return [line for line in page.splitlines() if "benchmark" in line]

    assert heads("number", "50 %") == ["| benchmark | scorer | accuracy | n |"]
    assert heads("x" * 75, "50 %") == ["| benchmark | scorer |", "| benchmark | accuracy | n |"]
    assert heads("x" * 60, "x" * 80) == [
        "| benchmark | scorer |",
        "| benchmark | accuracy |",
        "| benchmark | n |",
    ]


def test_each_value_stands_beside_what_tells_its_row_apart_in_all_parts_of_a_table():
    rows = [("sums " + "x" * 60, "judge", "all", name, "0.8261", "23") for name in ("f1", "kappa")]
    columns = ("benchmark", "scorer", "part", "result", "value", "n")
    table = Table(columns, rows, text=columns[:4])

    parts = markdown([table]).strip().split("\n\n")

    (value,) = (part.split("\n") for part in parts if "value" in part)
    assert len(parts) > 1
    assert ["f1" in value[2], "kappa" in value[3]] == [True, True]


def test_columns_without_a_cell_are_left_out():
    assert markdown([Table(("a", "b", "n"), [("x", "", "1")])]).splitlines()[0] == "| a | n |"


def test_a_cell_has_its_bold_words_code_and_links():
    cells = ("a\n b", (Strong("1"), ", 2"), Code("c|d"), Link("e", "https://x.org/|"), Code("f"))
    page = markdown([Table(("a", "n", "c", "e", "f"), [cells])])
    assert page.splitlines()[2] == r"| a b | **1**, 2 | c\|d | [e](https://x.org/%7C) | `f` |"


def test_commands_do_not_end_their_block():
    assert markdown([Commands(["a '", "```", "'"])]).splitlines()[::4] == ["````", "````"]


def test_untrusted_texts_are_text_in_every_place():
    nasty = "`<b>|*x*"
    page = markdown(
        [
            Table(("name",), [(nasty,), ((Strong(nasty), Link(nasty, "https://x.org")),)]),
            Heading(nasty),
            Items([nasty]),
            Line((nasty, Strong(nasty), Code(nasty), Link(nasty, "https://x.org/(a b)"))),
            Line(Link(nasty, "javascript:alert(1)")),
            Fold(nasty, [Quote(nasty, f"```\n{nasty}")]),
        ]
    )
    outside = "\n".join(line for line in page.splitlines() if not line.startswith("    "))

    assert "<b>" not in outside
    assert "](https://x.org/%28a%20b%29)" in page
    assert "javascript" not in page
    assert f"    ```\n    {nasty}" in page


def test_a_page_ends_at_its_limit_with_a_remark_and_closed_folds():
    lines = [Line("x" * 90) for _ in range(20)]

    page = markdown([Plot("p", "data:" + "y" * 2_000), Details([Fold("more", lines)])], limit=1_000)

    assert page.count("x" * 90) == 10
    assert page.endswith("The rest is too long for this page.\n\n</details>\n")
    assert 900 < len(page.replace("y" * 2_000, "")) < 1_100
