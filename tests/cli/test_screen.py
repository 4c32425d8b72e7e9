"""Tables on terminals of several widths: nothing is cut, and no line is longer than the screen unless one cell is."""

import subprocess
import sys

import pytest

from regrade.text.blocks import Table
from regrade.text.layout import layout

WIDTHS = (60, *(pytest.param(width, marks=pytest.mark.slow) for width in (80, 120, 200)))


@pytest.mark.parametrize("width", [*WIDTHS, 30])
def test_a_line_is_longer_than_the_screen_only_if_one_cell_is(width: int):
    columns = ("model", "benchmark", "accuracy", "n", "pass", "failed")
    rows = [
        (
            f"org/{'m' * n}",
            f"b{'b' * n}",
            "avg@8 74.5 ± 2.2 %",
            "14,042",
            "a 1 %, b 2 %, c 3 %",
            "0",
        )
        for n in (3, 40, 70)
    ]
    table = Table(columns, rows, columns[:2], headings=columns[:2], lists=("pass",))

    lines = list(layout(table, width))

    for line in lines:
        whole = line.kind == "heading" and line.text in {
            cell for cells in rows for cell in cells[:2]
        }
        assert len(line.text) <= width or whole
    shown = "\n".join(line.text for line in lines)
    for cells in rows:
        for cell in (*cells[:4], *cells[4].split(", ")):
            assert cell in shown


def test_settings_are_in_one_column_of_every_part_if_they_do_not_fit():
    columns = ("dtype", "in flight", "accuracy", "s per answer")
    rows = [("bfloat16", "4", "80.0 ± 4.0 %", "0.1000"), ("float16", "16", "failed", "")]
    table = Table(columns, rows, columns[:2], settings=columns[:2])

    assert next(layout(table, 80)).text == "dtype     in flight      accuracy  s per answer"
    assert [line.text for line in layout(table, 32)] == [
        "settings                accuracy",
        "dtype=bfloat16,     80.0 ± 4.0 %",
        "in flight=4",
        "dtype=float16,            failed",
        "in flight=16",
        "",
        "settings            s per answer",
        "dtype=bfloat16,           0.1000",
        "in flight=4",
        "dtype=float16,",
        "in flight=16",
    ]


def test_a_further_table_has_no_rows_without_a_value_and_none_twice():
    columns = ("answer set", "scorer", "accuracy", "remarks")
    rows = [
        ("1f0c", "number", "80.0 ± 4.0 %", "12 of 20 answers"),
        ("1f0c", "original (of the file, reported 63 %)", "63.0 ± 4.9 %", "12 of 20 answers"),
        ("77ab", "number", "81.0 ± 4.0 %", ""),
    ]
    table = Table(columns, rows, {*columns} - {"accuracy"}, lists=("scorer",))

    assert [line.text for line in layout(table, 50)] == [
        "answer set  scorer                        accuracy",
        "1f0c        number                    80.0 ± 4.0 %",
        "1f0c        original (of the file,    63.0 ± 4.9 %",
        "            reported 63 %)",
        "77ab        number                    81.0 ± 4.0 %",
        "",
        "answer set  remarks",
        "1f0c        12 of 20 answers",
    ]


def test_a_table_that_fits_is_one_table():
    table = Table(("a", "n"), [("x", "1"), ("yy", "22")], ("a",))
    assert [line.text for line in layout(table, 20)] == ["a    n", "x    1", "yy  22"]


def test_a_further_table_begins_with_the_columns_that_tell_the_rows_apart():
    columns = ("task", "result", "value", "n")
    rows = [("sums", "strict", "0.5", "9"), ("sums", "loose", "0.5", "9")]

    assert [line.text for line in layout(Table(columns, rows, columns[:2]), 20)] == [
        "task  result  value",
        "sums  strict    0.5",
        "sums  loose     0.5",
        "",
        "task  result  n",
        "sums  strict  9",
        "sums  loose   9",
    ]


def test_a_reader_that_leaves_does_not_change_the_exit_code() -> None:
    script = "from regrade.cli.terminal import stdout\nfor _ in range(9999):\n    stdout.print('x' * 99)\nraise SystemExit(7)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        command.stdout.close()
    assert command.returncode == 7
