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
from regrade.results.results import AnswerSetResult, Evaluation, score_result
from regrade.scoring.score import score_answers
from regrade.settings import SamplingParams
from regrade.text.blocks import Table
from regrade.text.layout import layout
from tests.builders import row
from tests.comparing.sides import answer
from tests.stored import publish, score
from tests.tuning.sweep.made import paired_test, point, sweep

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
_RESULTS = """
import sys
from pathlib import Path
from regrade.cli.terminal import print_blocks
from regrade.results import page
from regrade.results.results import Evaluation
from regrade.tuning.sweep import text
from regrade.tuning.sweep.results import SweepResult
print_blocks(page.blocks(Evaluation.model_validate_json(Path(sys.argv[1]).read_text())))
print("-- sweep")
print_blocks(text.blocks(SweepResult.model_validate_json(Path(sys.argv[2]).read_text()), {}))
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


REASON = (
    "vLLM cannot run a pipeline on a CPU: " + "leave out `--engine.pipeline-parallel-size`, or " * 8
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files with the result of an evaluation, whose questions have four answers each, and with that of a sweep."""
    folder = tmp_path_factory.mktemp("results")
    rows = [
        row(n, "" if repeat < n % 5 else "#### 99", repeat=repeat)
        for n in range(8)
        for repeat in range(4)
    ]
    answers = publish(
        LocalRepository(folder / "answers"),
        rows,
        repeats=4,
        sampling=SamplingParams(temperature=0.6),
        model=MODEL,
        benchmark=BENCHMARK,
    )
    result = AnswerSetResult(
        benchmark=BENCHMARK,
        model=MODEL,
        answer_set_id=answers.manifest.answer_set_id,
        revision=answers.revision,
        url=None,
        rows=32,
        expected_rows=40,
        repeats=4,
        generated=32,
        scores=(score_result(score_answers(answers, "number"), None),),
        seconds={"load": 1234.5, "generate": 98765.4, "publish": 1.2, "score": 0.3, "track": 2.1},
    )
    evaluation = Evaluation(answer_sets=(result,), repository=answers.repository.uri)
    axes = {
        "engine.quantization": ("default", "fp8"),
        "engine.tensor_parallel_size": ("1", "8"),
        "in_flight": ("4", "16"),
    }
    points = []
    for number in range(8):
        places = (number // 4, number // 2 % 2, number % 2)
        settings = {
            name: values[place] for (name, values), place in zip(axes.items(), places, strict=True)
        }
        name = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())
        made = point(
            number,
            4,
            REASON if number in (2, 7) else None,
            test=paired_test(0.02) if number else None,
        )
        points.append(made.model_copy(update={"settings": settings, "name": name}))
    swept = sweep(*points).model_copy(update={"axes": axes})
    files = []
    for name, document in (("evaluation", evaluation), ("sweep", swept)):
        (folder / name).write_text(document.model_dump_json())
        files.append(str(folder / name))
    return files


@pytest.mark.parametrize("width", WIDTHS)
def test_results_of_an_evaluation_and_of_a_sweep_fit_every_width(results: list[str], width: int):
    lines = screen(width, _RESULTS, *results)
    text = "\n".join(lines)

    assert "…" not in text
    assert "Traceback" not in text
    evaluated, _, swept = text.partition("-- sweep")
    for whole in (MODEL, BENCHMARK, "avg@4 ", " ± ", "pass@4 ", "maj@4 ", "1234.5", "98765.4"):
        assert whole in evaluated
    words = " ".join(swept.split())
    assert words.count(f"tensor_parallel_size=8, in_flight=4: {REASON.strip()}") == 1
    assert swept.count("failed") == 3  # how many, and in each one's row
    for whole in ("80.0 ± 4.0 %", "-10.00 (-20.00 to +0.00)", "10 / 0", "0.0200"):
        assert swept.count(whole) >= 5
    uncut = (MODEL, BENCHMARK, "- command: ")  # a command is whole, to be copied
    longest = max((line for line in lines if not any(one in line for one in uncut)), key=len)
    assert len(longest) <= width, longest
    # Each line of a table says which point it is about, also in the tables below.
    assert swept.count("fp8") >= 4


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
