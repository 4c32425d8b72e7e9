"""Commands: each is declared where its function stands, and is found without importing it."""

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

GROUPS = (
    *("Get answers", "Grade and read", "Compare and decide"),
    *("Hand on", "Servers and CI", "This installation"),
)
"""Titles of the groups of commands, in the order of the help."""
NOUNS = {
    "answers": "Generate, import, publish, check and hand on answers.",
    "judges": "Let models grade answers, combine their verdicts, and compare them with people's labels.",
    "settings": "Find settings that fit a machine, and what they cost and change.",
    "server": "Run evaluations on a Prefect server and its workers.",
}
"""Nouns under which the commands stand that are not for every day (`regrade answers import` is `regrade import`), and their lines."""
USUAL_CODES = "0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 stopped"


class Command(NamedTuple):
    """A command, as the help shows it."""

    function: str
    """Module below `regrade.cli`, and function: `run:evaluate`."""
    line: str
    """First line of its help: that of the function's docstring."""
    examples: tuple[str, ...]
    """Examples without `regrade`: those of the docstring. A short `--help` has the options of the first."""
    group: str
    """Title of its group."""
    noun: str = ""
    """Noun under which it stands; "" for a command on the first page of the help."""
    runs_flow: bool = False
    """It runs a flow on a Prefect server, whose import begins before its own."""
    gives_verdict: bool = False
    """Its exit codes 1 and 2 are verdicts."""
    codes: str = USUAL_CODES
    """Its exit codes."""


def command(**fields: str | bool) -> Callable[[T], T]:  # noqa: ARG001
    """Declare a function a command. The arguments are literals: they are read from the file, which is not imported for it.

    Args:
        fields: Those of `Command` which the function does not tell, and `name` if that is not the function's.
    """
    return lambda function: function


def declared_in(folder: Path) -> Iterator[tuple[str, Command]]:
    """Yield name and command of each function with `@command` in a folder, from the text alone: a help imports none of them."""
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        for part in path.read_text("utf-8").split("\n@command(")[1:]:
            arguments, _, function = part.partition("\ndef ")
            words = ast.walk(ast.parse(f"_({arguments}"))
            given = [word for word in words if isinstance(word, ast.keyword)]
            fields = {word.arg or "": ast.literal_eval(word.value) for word in given}
            called = function.partition("(")[0]
            name = fields.pop("name", called.replace("_", "-"))
            line, *more = function.split('"""')[1].splitlines()
            after = more[more.index("    Examples:") + 1 :]
            examples = tuple(text.strip() for text in after if text.strip())
            yield name, Command(f"{module}:{called}", line, examples, **fields)


COMMANDS = dict(
    sorted(
        declared_in(Path(__file__).parent),
        key=lambda named: (GROUPS.index(named[1].group), named[0]),
    )
)
"""Commands by name, in the order of the help."""


def names_under(noun: str) -> tuple[str, ...]:
    """Return the commands under a noun."""
    return tuple(name for name, command in COMMANDS.items() if command.noun == noun)


def without_noun(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without a noun in front of one of its commands."""
    if len(arguments) > 1 and arguments[0] in NOUNS and arguments[1] in names_under(arguments[0]):
        return list(arguments[1:])
    return list(arguments)
