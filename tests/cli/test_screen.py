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
from regrade.cli.layout import Table, layout
from tests.comparing.sides import answer
from tests.stored import score

MODEL = "meta-llama/Meta-Llama-3.1-70B-Instruct-w8a8"
BENCHMARK = "lm_eval:mmlu_flan_n_shot_generative_stem"
WIDTHS = (60, 80, 120, 200)
_SCRIPT = """
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


def screen(width: int, *arguments: str) -> list[str]:
    """The lines that a terminal of a width shows, before it wraps any."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, *arguments],
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
    lines = screen(width, repository.uri, MODEL)
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
        whole = line.kind == "heading" and line.text in {cell for row in rows for cell in row[:2]}
        assert len(line.text) <= width or whole
    shown = "\n".join(line.text for line in lines)
    for row in rows:
        for cell in (*row[:4], *row[4].split(", ")):
            assert cell in shown


def test_a_table_that_fits_is_one_table():
    table = Table(("a", "n"), [("x", "1"), ("yy", "22")], ("a",))
    assert [line.text for line in layout(table, 20)] == ["a    n", "x    1", "yy  22"]
