"""Tables on terminals of several widths: nothing is cut, and no line is longer than the screen unless one cell is."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.text.blocks import Table
from regrade.text.layout import layout
from tests.comparing.sides import answer
from tests.stored import score

MODEL = "meta-llama/Meta-Llama-3.1-70B-Instruct-w8a8"
BENCHMARK = "lm_eval:mmlu_flan_n_shot_generative_stem"
WIDTHS = (60, *(pytest.param(width, marks=pytest.mark.slow) for width in (80, 120, 200)))
_COMMANDS = """
import sys
from regrade.cli.main import run
where = ["--answers", sys.argv[1]]
run(["list", *where])
print("-- compare")
run(["compare", "org/base", sys.argv[2], *where, "--examples", "0"])
print("-- gate")
try:
    run(["gate", sys.argv[2], "--baseline", "org/base", *where])
except SystemExit:
    pass
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> LocalRepository:
    repository = LocalRepository(tmp_path_factory.mktemp("screen") / "answers")
    for model, right in (("org/base", 300), (MODEL, 280)):
        score(answer(repository, model, right=right, benchmark=BENCHMARK))
        score(answer(repository, model, right=right))
    return repository


def screen(width: int, script: str, *arguments: str) -> list[str]:
    """The lines that a script prints on a terminal of a width, before the terminal wraps any."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=theirs,
        stderr=theirs,
        stdin=theirs,
        env=environment,
        cwd=Path(__file__).parents[2],
    ):
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the end, on Linux
                break
            if not part:
                break
            shown += part
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r", "").splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_names_accuracy_error_and_n_are_whole_at_every_width(
    repository: LocalRepository, width: int
):
    lines = screen(width, _COMMANDS, repository.uri, MODEL)
    text = "\n".join(lines)

    assert "…" not in text
    assert "Traceback" not in text
    listed, _, rest = text.partition("-- compare")
    for whole in (MODEL, BENCHMARK, "75.0 ± 2.2 %", "70.0 ± 2.3 %", "400", "sums"):
        assert whole in listed
    compared, _, judged = rest.partition("-- gate")
    for whole in (BENCHMARK, "75.00 %", "70.00 %", "-5.00", "95 % interval", "below 0.0001", "400"):
        assert whole in compared
    for whole in (BENCHMARK, "regression", "-5.00", "400"):
        assert whole in judged
    tables = [line for line in lines if line.startswith(("answer set", "  scorer", "  answer set"))]
    assert tables
    assert all(len(line) <= width for line in tables)


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
