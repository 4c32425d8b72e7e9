"""Options that a command's `--help` shows; `--help-all` has the others, too."""

from collections.abc import Callable
from typing import TypeVar

IN_SHORT_HELP = "in_short_help"
"""Attribute of a command with the options in its `--help`."""
RUN_OPTIONS = ("--config", "--answers", "--json", "--quiet")
MODEL_OPTIONS = ("--model", "--benchmark", "--suite", "--limit", "--temperature", "--max-tokens")
_Command = TypeVar("_Command", bound=Callable[..., None])


def short_help(*options: str) -> Callable[[_Command], _Command]:
    """Name the options in the `--help` of a command; `--help-all` has the others, too. Without it, both have all."""

    def named(command: _Command) -> _Command:
        setattr(command, IN_SHORT_HELP, options)
        return command

    return named
