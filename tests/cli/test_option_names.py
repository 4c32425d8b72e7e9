"""Options that messages and helps name exist, and every command with a result prints it in the same forms."""

import re

import pytest
from cyclopts import ArgumentCollection

from regrade.cli.commands import COMMANDS, command_line
from regrade.cli.main import run
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


def arguments(command: str) -> ArgumentCollection:
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


def test_an_option_in_a_message_is_one_of_the_command_that_it_names(
    options: dict[str, set[str]],
) -> None:
    every = set().union(*options.values()) | _OF_OTHERS
    wrong = [
        f"{path.relative_to(ROOT)}: {option} of {command or 'any command'}"
        for folder in ("regrade", "flows", "tasks")
        for path in (ROOT / folder).rglob("*.py")
        for command, option in _NAMED.findall(path.read_text())
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
