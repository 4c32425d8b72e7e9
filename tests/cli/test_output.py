"""The three forms of output: table, JSON, quiet."""

import io
import logging
import re
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from pydantic import BaseModel
from rich.console import Console

from regrade import __version__
from regrade.answers.local import LocalRepository
from regrade.cli import output
from regrade.cli.naming import NAMING
from regrade.cli.output import Output
from regrade.cli.terminal import TerminalDisplay, show_logs
from regrade.jobs.generate import Progress
from regrade.results.display import NoDisplay
from regrade.results.results import Evaluation, Gated
from tests.command_line import Ran, regrade
from tests.comparing.sides import answer


class Found(BaseModel):
    name: str = "ä"
    n: int = 1


@pytest.fixture(autouse=True)
def nothing_written(monkeypatch: pytest.MonkeyPatch):
    """Each test is a command of its own."""
    monkeypatch.setattr(output, "_written", [])


@pytest.fixture
def drawn() -> list[str]:
    return []


@pytest.mark.parametrize("document", [Found(), Found().model_dump()])
def test_a_document_and_a_model_are_the_same_json_with_the_version(
    document: BaseModel | dict[str, object], drawn: list[str], capsys: pytest.CaptureFixture[str]
):
    Output(json=True).show(document, lambda: drawn.append("table"))
    version = f'  "regrade_version": "{__version__}",\n'
    assert capsys.readouterr().out == f'{{\n{version}  "name": "ä",\n  "n": 1\n}}\n'
    assert drawn == []


def test_a_table_is_drawn_unless_quiet(drawn: list[str], capsys: pytest.CaptureFixture[str]):
    Output(quiet=True).show(Found(), lambda: drawn.append("quiet"))
    Output().show(Found(), lambda: drawn.append("table"))
    assert drawn == ["table"]
    assert capsys.readouterr().out == ""


@pytest.fixture
def repository(tmp_path: Path) -> LocalRepository:
    repository = LocalRepository(tmp_path / "answers")
    answer(repository, "org/good", right=20, total=20)
    answer(repository, "org/bad", right=2, total=20)
    return repository


@pytest.mark.parametrize(
    "arguments", ["list", "verify", "compare good bad", "promote good", "benchmarks", "scorers"]
)
def test_quiet_commands_print_nothing(repository: LocalRepository, arguments: str):
    where = () if arguments in ("benchmarks", "scorers") else ("--answers", repository.uri)
    assert regrade(*arguments.split(), *where, "-q") == Ran(0, "", "")


def test_a_quiet_verdict_is_the_exit_code(repository: LocalRepository):
    given = ("--max-drop", "40", "--answers", repository.uri, "-q")
    assert regrade("gate", "bad", "--baseline", "good", *given) == Ran(1, "", "")


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("regression", 1), ("cannot tell", 1)])
def test_an_evaluation_with_a_baseline_passes_with_exit_code_0_only(
    verdict: str, code: int, monkeypatch: pytest.MonkeyPatch
):
    gate = Gated(verdict=verdict, summary=f"{verdict}: as tested")
    result = Evaluation(answer_sets=(), repository="/answers", gate=gate)
    monkeypatch.setattr("regrade.cli.run.run_flow", lambda *_: result)
    command = ["evaluate", "--model", "org/model", "--benchmark", "gsm8k", "--baseline", "org/base"]

    ran = regrade(*command, "--max-drop", "1", "--json")

    assert (ran.code, ran.document["gate"]["verdict"]) == (code, verdict)
    assert ("as tested" in ran.err) == (code != 0)


def test_quiet_logs_are_warnings_and_errors(capfd: pytest.CaptureFixture[str]):
    logger = show_logs("regrade.quiet-test", quiet=True)
    logger.info("unimportant")
    logger.warning("important, and longer than the eighty columns that a terminal has: not wrapped")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("not wrapped")
    logging.getLogger("regrade.quiet-test").handlers.clear()


def test_log_lines_name_settings_as_they_were_given_also_those_of_other_threads(
    capfd: pytest.CaptureFixture[str],
):
    naming = NAMING.set(lambda text: text.replace("`limit`", "`--limit`"))
    logger = show_logs("regrade.naming-test", quiet=True)
    NAMING.reset(naming)
    thread = Thread(target=logger.warning, args=("raise `%s`", "limit"))
    thread.start()
    thread.join()
    assert capfd.readouterr().err.endswith("raise `--limit`\n")
    logger.handlers.clear()


def test_the_seconds_of_a_command_begin_with_its_process():
    code = "import time; from regrade.cli.terminal import TerminalDisplay; print(TerminalDisplay().begun)"
    before = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # A process has the time of its start in hundredths of a second.
    assert before - 0.02 < float(ran.stdout) < before + 1


def test_loading_shows_its_step_and_the_seconds_that_passed(monkeypatch: pytest.MonkeyPatch):
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    monkeypatch.setattr("regrade.cli.terminal.stderr", screen)
    display = TerminalDisplay()
    for model, step in (("org/broken", "reading weights"), ("org/model", "warming up")):
        display.loading(model)
        display.step(step)
    screen.print(display._bar.get_renderable())
    shown = screen.file.getvalue()

    assert "loading: warming up" in shown
    assert "reading weights" not in shown  # that engine did not start
    assert re.search(r"\b\d+ s\b", shown)
    assert "0/?" not in shown


def test_each_answer_set_has_a_bar_of_its_own_while_they_are_answered_together(
    monkeypatch: pytest.MonkeyPatch,
):
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    monkeypatch.setattr("regrade.cli.terminal.stderr", screen)
    display = TerminalDisplay()
    display.advance("gsm8k", Progress(total=40, done=3))
    display.advance("mmlu", Progress(total=200, done=10))
    display.advance("gsm8k", Progress(total=40, done=7))
    screen.print(display._bar.get_renderable())

    gsm8k, mmlu = screen.file.getvalue().strip().splitlines()
    assert re.search(r"gsm8k .* 7/40\b", gsm8k)
    assert re.search(r"mmlu .* 10/200\b", mmlu)


def test_without_a_terminal_each_step_of_loading_is_a_line(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "regrade.generate")
    for display in (TerminalDisplay(), NoDisplay()):
        display.loading("org/model")
        display.step("warming up")
    assert caplog.messages == ["loading org/model", "loading: warming up"] * 2
