"""Errors in how a command is called, in one line that names the option."""

import re
from collections.abc import Iterator

from cyclopts.exceptions import CycloptsError, MissingArgumentError, UnknownCommandError
from pydantic import ValidationError as SettingsProblem

from regrade.problems import problem_text, sentence

_NO_NUMBER = re.compile(r'^Invalid value for (\S+): unable to convert "(.*)" into (int|float)\.')


def problem_of(error: CycloptsError, command: str) -> str:
    """Describe the mistake in the call of a command, and name its help."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, SettingsProblem):
        return sentence("; ".join(_settings(cause, _prefix(error))))
    error.verbose = False
    text = " ".join(str(error).split())
    if isinstance(error, UnknownCommandError):
        return f"{text} `regrade --help` lists them all."
    if isinstance(error, MissingArgumentError) and error.argument and not error.argument.tokens:
        name = error.argument.name
        has_place = error.argument.index is not None
        shown = name.lstrip("-").upper().replace("-", "_") if has_place else f"`{name}`"
        return f"{shown} is missing. See `regrade {command} --help`."
    text = re.sub(r'^Command "[^"]*" parameter ', "", text)
    text = _NO_NUMBER.sub(_number_expected, text)
    return f"{text} See `regrade {command} --help`."


def _number_expected(found: re.Match[str]) -> str:
    kind = "a whole number" if found[3] == "int" else "a number"
    return f"`{found[1]} {found[2]}` should be {kind}."


def _prefix(error: CycloptsError) -> str:
    """Return the option that a group of settings has, such as `--engine`; "" if its fields are options by themselves."""
    name = error.argument.name if error.argument is not None else ""
    return name if name.startswith("--") else ""


def _settings(problem: SettingsProblem, prefix: str) -> Iterator[str]:
    for found in problem.errors():
        path = [str(part).replace("_", "-") for part in found["loc"]]
        option = ".".join([prefix, *path]) if prefix else f"--{'.'.join(path)}"
        yield problem_text(found, f"`{option}`")
