"""Options that messages and helps name exist, and every command with a result prints it in the same forms."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclopts import ArgumentCollection

from regrade.cli.checking import checked_job
from regrade.cli.command_list import COMMANDS
from regrade.cli.commands import command_line
from regrade.cli.job_options import JobOption, JobOptions, fields_of
from regrade.cli.main import run
from regrade.engines.vllm import VllmEngine
from regrade.settings.errors import SettingsError
from regrade.settings.problems import models_in
from tests.command_line import ROOT

_NAMED = re.compile(r"`(?:regrade ([a-z-]+) )?[^`\n]*?(?<![\w-])(--[a-z][\w.-]*\w)")
_OF_OTHERS = {
    *("--help", "--help-all", "--version"),
    *("--array", "--factory", "--recursive", "--extra-index-url"),  # sbatch, uvicorn, chmod, pip
    *("--metadata", "--num_fewshot", "--dump-eval-details"),  # lm-evaluation-harness, OpenCompass
    *("--channel", "--lifeline"),  # regrade.processes.supervisor
    "--dataset",  # the beginning of an option whose field follows
}
"""Options that are none of a command."""
_NO_RESULT = {"completion", "view", "worker"}
"""Commands that run until they are stopped, or print a script."""
JOB_OPTIONS: dict[str, type[JobOptions]] = {
    command: found
    for command, listed in COMMANDS.items()
    for module in [import_module(f"regrade.cli.{listed.function.partition(':')[0]}")]
    if issubclass(found := getattr(module, f"{command.title()}Options", object), JobOptions)
}
"""Commands with a job -> their options."""
KEYS = {field.path for options in JOB_OPTIONS.values() for field in fields_of(options.job)}
"""Keys of all settings."""
_GROUPS = {path[0] for path in KEYS if len(path) > 1}
_LONG_NAMES = {path[-1] for path in KEYS if "_" in path[-1]} - {"lm_eval"}
_BARE = re.compile(
    rf"(?<![`'\w./-])(?:(?:{'|'.join(sorted(_GROUPS))})\.[a-z]\w+(?!\()|(?:{'|'.join(sorted(_LONG_NAMES))}))(?![\w-])"
)
"""Matches a setting outside of backticks."""


@cache
def arguments(command: str) -> ArgumentCollection:
    """Arguments of a command, in tenths of a second."""
    app = command_line(command, helping=True, full=True)
    return app[command].assemble_argument_collection(parse_docstring=False)


@pytest.fixture(scope="module")
def options() -> dict[str, set[str]]:
    """Options of each command."""
    return {
        command: {
            name
            for argument in arguments(command)
            for name in (*argument.names, *argument.negatives)
        }
        for command in COMMANDS
    }


def modules() -> Iterator[tuple[Path, str]]:
    """Yield path and code of the modules whose messages may reach the command line."""
    for folder in ("regrade", "flows", "tasks"):
        for path in (ROOT / folder).rglob("*.py"):
            yield path.relative_to(ROOT), path.read_text()


@pytest.fixture(scope="module")
def raised_texts() -> list[tuple[str, str]]:
    """Place and text of the strings in all `raise` statements."""
    found = []
    for path, code in modules():
        for statement in ast.walk(ast.parse(code)):
            if not isinstance(statement, ast.Raise) or statement.exc is None:
                continue
            for node in ast.walk(statement.exc):
                if isinstance(node, ast.JoinedStr):
                    shown = (n.value if isinstance(n, ast.Constant) else "x" for n in node.values)
                    found.append((f"{path}:{node.lineno}", "".join(map(str, shown))))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append((f"{path}:{node.lineno}", node.value))
    return found


def test_an_option_in_a_message_is_one_of_the_command_that_it_names(
    options: dict[str, set[str]],
) -> None:
    every = set().union(*options.values()) | _OF_OTHERS
    wrong = [
        f"{path}: {option} of {command or 'any command'}"
        for path, code in modules()
        for command, option in _NAMED.findall(code)
        if option not in (options[command] | _OF_OTHERS if command in options else every)
    ]
    assert wrong == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_a_result_has_json_and_quiet(
    command: str, options: dict[str, set[str]]
) -> None:
    both = {"--json", "--quiet"}
    assert options[command] & both == (set() if command in _NO_RESULT else both)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_whole_help_shows_every_option(
    command: str,
    options: dict[str, set[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([command, "--help-all"]) == 0
    page = capsys.readouterr().out
    shown = {*re.findall(r"(?<!\S)--[\w.-]+", page)}
    assert [
        argument.names
        for argument in arguments(command)
        if argument.names and argument.show and shown.isdisjoint(argument.names)
        if any(name.startswith("--") for name in argument.names)
    ] == []


def test_an_error_names_a_setting_in_backticks_so_that_the_command_line_can_name_its_option(
    raised_texts: list[tuple[str, str]],
) -> None:
    assert [
        f"{place}: {found[0]} in {text!r}"
        for place, text in raised_texts
        if " " in text and (found := _BARE.search(text))
    ] == []


def refusal(options: JobOptions, known: dict[str, Any]) -> str:
    """Return the message with which a command refuses its options, as `regrade` prints it."""
    with pytest.raises(SettingsError) as refused:
        checked_job(options.job, known | options.parameters(), options.config)
    return options.named(str(refused.value))


def wrong(option: JobOption) -> Any:
    """Return a value that no field takes, as an option and as YAML have it."""
    value = "no such" if any(models_in(option.info.annotation)) else {"no": "such"}
    return [value] if option.is_list else value


@pytest.mark.parametrize("command", JOB_OPTIONS)
def test_a_bad_value_is_named_by_the_option_or_by_the_key_and_file_that_gave_it(
    command: str, tmp_path: Path
) -> None:
    made = JOB_OPTIONS[command]
    file = tmp_path / "job.yaml"
    names = ("model", "base", "candidate", "answer_set")
    known = dict.fromkeys(names, "m") | {"judges": ["m"], "arguments": ["m"]}
    known = {name: value for name, value in known.items() if name in made.job.model_fields}
    for option in made.options:
        value = wrong(option)
        if option.path[-1] == "kind":
            continue
        is_of_server = option.path[0] == "engine" and option.path[1] not in VllmEngine.model_fields
        engine = {"engine_kind": "openai"} if is_of_server else {}
        by_option = refusal(made(**{option.attribute: value}, **engine), known)
        assert f"`{option.names[0]}" in by_option, (option.setting, by_option)
        assert not _BARE.search(by_option), by_option

        content: Any = value
        for name in reversed(option.path):
            content = {name: content}
        for group in content.values():
            if is_of_server:
                group["kind"] = "openai"
        if option.path[0] == "datasets":
            content = {"datasets": [content["datasets"]]}
        file.write_text(yaml.safe_dump(content))
        by_key = refusal(made(config=file), known)
        assert f" in '{file}'" in by_key, (option.setting, by_key)
        assert "`--" not in by_key.replace("`--score-range` is missing", "")  # its second number


def test_no_error_has_the_settings_that_it_names_in_quotes_where_they_stand_for_what_others_wrote(
    raised_texts: list[tuple[str, str]],
) -> None:
    named = JOB_OPTIONS["evaluate"]().named
    assert [
        f"{place}: {text!r}"
        for place, text in raised_texts
        if named(text).replace("'", "") != named(text.replace("'", ""))
    ] == []
