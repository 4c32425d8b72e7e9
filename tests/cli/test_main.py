"""Help of the command line: complete, fast and without Python terms."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib import import_module
from inspect import getsource
from pathlib import Path

import pytest

from regrade.cli.command_list import (
    COMMANDS,
    GROUPS,
    NOUNS,
    USUAL_CODES,
    declared_in,
    names_under,
    without_noun,
)
from regrade.cli.commands import command_line
from regrade.cli.job_options import as_json
from regrade.cli.main import run
from regrade.cli.run import EvaluateOptions
from regrade.jobs.job import EvaluationJob, GenerationJob, make_job
from regrade.settings import SamplingSettings
from regrade.settings.errors import SettingsError
from tests.command_line import DEMO, regrade

ALL_MODULES = {f"regrade.cli.{command.function.partition(':')[0]}" for command in COMMANDS.values()}


def test_a_command_that_runs_a_flow_begins_its_server_before_its_imports_but_for_scoring_which_needs_none():
    functions = {name: command.function.split(":") for name, command in COMMANDS.items()}
    run_flow = {
        name
        for name, (module, function) in functions.items()
        if "run_flow(" in getsource(getattr(import_module(f"regrade.cli.{module}"), function))
    }
    assert run_flow - {"score"} == {n for n, command in COMMANDS.items() if command.runs_flow}


def test_a_command_is_one_file_which_declares_what_the_help_says_of_it(tmp_path: Path):
    (tmp_path / "made_up.py").write_text(
        'raise ImportError\n\n\n@command(group="Hand on", noun="answers")\n'
        'def made_up(answer_set: str) -> None:\n    """Make an answer set up.\n\n    Examples:\n        made-up x\n        made-up y\n    """\n'
    )
    ((name, made_up),) = declared_in(tmp_path)
    assert (name, made_up.function) == ("made-up", "made_up:made_up")
    assert (made_up.group, made_up.noun, made_up.codes) == ("Hand on", "answers", USUAL_CODES)
    assert made_up.line == "Make an answer set up."
    assert made_up.examples == ("made-up x", "made-up y")


def test_the_list_of_commands_imports_none_of_them():
    code = (
        "import sys; from regrade.cli.main import run; run(['--help']); "
        f"print([name for name in {sorted({*ALL_MODULES, 'prefect', 'pydantic'})} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@cache
def page(*words: str) -> str:
    """Return the output of a command; a page of help takes tenths of a second, and is made once for all tests."""
    with contextlib.redirect_stdout(io.StringIO()) as written:
        assert run([*words]) == 0
    return written.getvalue()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_free_of_python(name: str):
    shown = " ".join(page(name, "--help").replace("│", " ").split())
    for leak in ("None", "empty-", "False", "()"):
        assert leak not in shown
    assert re.search(r"\b(STR|INT|FLOAT)\b", shown) is None
    assert "Exit codes: 0 " in shown


def test_every_command_has_examples_that_it_accepts():
    app = command_line()
    for name, command in COMMANDS.items():
        assert command.examples
        for words in map(shlex.split, command.examples):
            assert words[0] == name
            app.parse_args(words, exit_on_error=False, print_error=False)


def test_the_first_page_has_what_people_do_daily_and_four_nouns():
    listed = re.findall(r"^│ (\w[\w-]*) ", page("--help"), re.MULTILINE)
    assert sorted(listed) == sorted([*names_under(""), *NOUNS])
    assert {command.noun for command in COMMANDS.values()} == {"", *NOUNS}


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_lists_its_commands_and_takes_them(noun: str):
    names = names_under(noun)
    listed = re.findall(r"^│ (\w[\w-]*) ", page(noun, "--help"), re.MULTILINE)
    assert {*names} <= {*listed}
    for name in names:
        assert without_noun([noun, name, "--json"]) == [name, "--json"]
    assert page(noun, names[-1], "--help") == page(names[-1], "--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_fits_a_screen_and_the_rest_is_one_word_away(name: str):
    options, every = (
        {*re.findall(r"(?<!\S)--[\w.-]+", page(name, word))} for word in ("--help", "--help-all")
    )
    assert page(name, "--help").count("\n") <= 40
    assert options - {"--help-all"} <= every
    examples = " ".join(text.partition(" -- ")[0] for text in COMMANDS[name].examples[:3])
    assert {*re.findall(r"(?<!\S)--[\w.-]+", examples)} <= options


def test_all_commands_are_listed_in_their_groups():
    shown = page("--help-all")
    titles = [shown.index(f"─ {title} ─") for title in GROUPS if f"─ {title} ─" in shown]
    assert len(titles) == len(GROUPS)
    assert titles == sorted(titles)
    assert "Exit codes: 0 done" in shown


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(name, marks=pytest.mark.slow) for name in ("zsh", "fish"))]
)
def test_the_completion_of_a_shell_knows_commands_and_options(shell: str):
    script = page("completion", shell)
    for word in ("evaluate", "max-drop-of", "publish-results", "judges", "start-timeout"):
        assert word in script


def test_a_refused_command_that_would_run_a_flow_leaves_no_log(tmp_path: Path):
    words = ("evaluate", "--model", "org/m", "--benchmark", "gsm8k", "--tracking-uri", "no://x")
    refused = regrade(*words, process=True, REGRADE_LOGS=str(tmp_path))
    assert (refused.code, list(tmp_path.iterdir())) == (2, [])


def test_logs_that_cannot_be_written_are_told_without_a_traceback(tmp_path: Path):
    (tmp_path / "logs").write_text("a file in the place of the folder")
    refused = regrade(
        *("generate", "--model", str(DEMO / "regrade-demo"), "--benchmark", "gsm8k"),
        process=True,
        REGRADE_LOGS=str(tmp_path / "logs"),
    )
    assert refused.code != 0
    assert "Traceback" not in refused.err
    assert f"'{tmp_path / 'logs'}' (Not a directory). Set REGRADE_LOGS" in refused.err


def test_a_shell_that_is_not_known_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for name in ("BASH_VERSION", "ZSH_VERSION", "FISH_VERSION", "SHELL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")  # no `ps` that names the shell above

    assert run(["completion"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "such as `regrade completion bash`" in line


def test_a_switch_that_is_on_can_be_switched_off():
    words = ["evaluate", "--engine.no-enable-prefix-caching", "--truncate=false"]
    _, bound, _ = command_line().parse_args(words, exit_on_error=False, print_error=False)
    options = bound.arguments["options"]
    assert options.parameters() == {
        "engine": {"enable_prefix_caching": False, "kind": "vllm"},
        "prompt": {"truncate": False},
    }


def test_an_adapter_is_a_setting_of_the_engine(tmp_path: Path):
    file = tmp_path / "run.yaml"
    file.write_text("model: org/base\nengine: {kind: vllm, lora: org/old, dtype: float16}\n")

    assert EvaluateOptions(model=("org/base",), engine_lora="org/new").parameters() == {
        "model": "org/base",
        "engine": {"kind": "vllm", "lora": "org/new"},
    }
    assert EvaluateOptions(config=file, engine_lora="org/new").parameters()["engine"] == {
        "kind": "vllm",
        "lora": "org/new",
        "dtype": "float16",
    }
    with pytest.raises(SettingsError, match=r"Engine 'openai' does not take `--engine\.lora`"):
        EvaluateOptions(model=("served",), engine_kind="openai", engine_lora="org/new").parameters()


def test_a_file_may_name_the_sampling_in_a_word_and_switch_reasoning_off(tmp_path: Path):
    file = tmp_path / "run.yaml"
    file.write_text("model: m\nbenchmarks: [gsm8k]\nsampling: model\nprompt: {thinking: off}\n")
    more = EvaluateOptions(config=file, sampling_max_tokens=8192)

    job = make_job(GenerationJob, more.parameters())

    spelled = as_json(EvaluationJob, EvaluateOptions(config=file).parameters())
    assert (spelled["sampling"], spelled["prompt"]) == ({"defaults": "model"}, {"thinking": "off"})
    assert job.sampling == SamplingSettings(defaults="model", max_tokens=8192)
    assert job.prompt.thinking == "off"
    other = EvaluateOptions(config=file, sampling_defaults="benchmark").parameters()["sampling"]
    assert other == {"defaults": "benchmark"}
