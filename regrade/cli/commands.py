"""The commands `regrade evaluate`, `score`, `list` and the others: their groups, help, examples and exit codes."""

import re
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cyclopts import App, Group, Parameter, Token, convert
from cyclopts.exceptions import CoercionError, CycloptsError
from cyclopts.help import DefaultFormatter

from regrade.cli.command_list import COMMANDS, GROUPS, NOUNS, USUAL_CODES, names_under
from regrade.processes.importing import quick_imports
from regrade.settings.errors import UserError
from regrade.settings.project_folder import VERSION

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

OTHER = Group("Other", sort_key=len(GROUPS) + 1)
"""Group of `--help` and `--version`."""
_MORE = Group("More commands, under a noun", sort_key=len(GROUPS))
_BELOW = Group("Commands")
HELP_ALL = "--help-all"
_FEW = 25
"""Longest list of choices in a short help, in characters."""
_SHOWN = 3
"""Examples in a short help, whose options it shows."""
_MANY = 10
"""Options of a command from which on its `--help` has only those of its first examples; `--help-all` has the others, too."""
_USUAL = ("--suite", "--config", "--answers", "--json", "--quiet")
"""Options that every short help shows."""
_OPTION = re.compile(r"(?<!\S)--[a-z][\w.-]*")
_GROUPS = {title: Group(title, sort_key=number) for number, title in enumerate(GROUPS)}


class PlainWords(DefaultFormatter):
    """Help with words for the values of options in place of Python's types: `--model TEXT`, `--limit NUMBER`.

    Attributes:
        only: Options that are shown, each with the beginning of its description; None for all with all of it.
    """

    only: tuple[str, ...] | None = None

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Show a panel of options."""
        entries = [
            (entry if self.only is None or panel.format == "command" else _in_short(entry)).copy(
                metavar=entry.metavar and in_words(entry.metavar)
            )
            for entry in panel.entries
            if self.only is None
            or panel.format == "command"
            or entry.positional_label is not None
            or not {*self.only}.isdisjoint(entry.positive_names)
        ]
        if not entries:
            return
        super().__call__(console, options, panel.copy(entries=entries))

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: object) -> None:
        """Show the line that begins with `Usage:`."""
        super().render_usage(console, options, usage and in_words(str(usage)))


def _in_short(entry: "HelpEntry") -> "HelpEntry":
    """Return an entry with the first statement of its description, and with its choices only if they are few."""
    from cyclopts.help.inline_text import InlineText  # noqa: PLC0415 - only a help needs these
    from rich.markdown import Markdown  # noqa: PLC0415

    whole = getattr(getattr(entry.description, "primary_renderable", None), "markup", "")
    first = re.split(r"[.;]\s", whole, maxsplit=1)[0]
    short = InlineText(Markdown(first if first == whole else f"{first}."))
    choices = entry.choices if len(", ".join(entry.choices or ())) <= _FEW else None
    return entry.copy(description=short, choices=choices)


def in_words(types: str) -> str:
    """Return a text with words for the types."""
    named = re.sub(r"\b(?:INT|FLOAT)\b", "NUMBER", re.sub(r"\bSTR\b", "TEXT", types))
    return re.sub(
        r"\bCHOICE(?:\|CHOICE)*(\|TEXT)?\b", lambda m: "TEXT" if m[1] else "CHOICE", named
    )


def _implementation(command: str) -> str:
    """Return the function that has the options of a command."""
    return "sweep:with_options" if command == "sweep" else COMMANDS[command].function


def _in_short_help(command: str, app: App) -> tuple[str, ...] | None:
    """Return the options in the `--help` of a command: those of its first examples and the usual ones; None if it has all."""
    arguments = app.assemble_argument_collection(parse_docstring=False)
    if sum(argument.show for argument in arguments) < _MANY:
        return None
    own = (text.partition(" -- ")[0] for text in COMMANDS[command].examples[:_SHOWN])
    return (*_USUAL, *_OPTION.findall(" ".join(own)))


def epilogue(command: str, *, is_short: bool = False) -> str:
    """Return the end of a command's help as markdown: examples and exit codes; of all commands for an empty name."""
    known = COMMANDS.get(command)
    shown = known.examples[: _SHOWN if is_short else None] if known else ()
    lines = [f"- `regrade {example}`" for example in shown]
    examples = ["Examples:", "", *lines, ""] if lines else []
    if not command:
        examples = [
            f"`regrade COMMAND --help` shows the options of a command, with examples; `regrade {HELP_ALL}` shows all commands. "
            "Those under a noun are also commands without it: `regrade import`.",
            "",
        ]
    codes = known.codes if known else USUAL_CODES
    verdicts = [name for name, listed in COMMANDS.items() if listed.gives_verdict]
    more = "" if command else f" ({' and '.join(verdicts)} have others)"
    rest = f" `regrade {command} {HELP_ALL}` shows all options." if is_short else ""
    return "\n".join([*examples, f"Exit codes: {codes}{more}.{rest}"])


def without_rounding(kind: Any, tokens: Sequence[Token]) -> Any:  # noqa: ANN401 - any type
    """Return the value of an option. Cyclopts takes `1.5` for the whole number 2.

    Raises:
        CoercionError: If it is not of this type, such as a fraction where a whole number is expected.
    """
    value = convert(kind, tokens)
    for token, number in zip(tokens, value if isinstance(value, tuple) else (value,), strict=False):
        if isinstance(number, int) and "." in token.value and float(token.value) != number:
            raise CoercionError(token=token, target_type=int)
    return value


def command_line(chosen: str = "", *, helping: bool = False, full: bool = False) -> App:
    """Return the commands; only the chosen one imports its module to show its full help.

    Args:
        chosen: Command that is called.
        helping: Its help is asked for.
        full: The help has all commands, or all options of the chosen one.
    """
    words = PlainWords()
    app = App(
        name="regrade",
        version=VERSION,
        help="Generate answers of language models once, keep them, and grade them as often as you like.",
        help_epilogue=epilogue(""),
        group_commands=OTHER,
        help_formatter=words,
        suppress_keyboard_interrupt=False,  # `run` handles it
        default_parameter=Parameter(
            negative_bool=(),
            negative_iterable=(),
            show_default=_shown_default,
            converter=without_rounding,
        ),
    )
    for name, command in COMMANDS.items():
        called = _implementation(name) if helping and name == chosen else command.function
        app.command(
            f"regrade.cli.{called}",
            name=name,
            help=None if name == chosen else command.line,
            help_epilogue=epilogue(name),
            group=_GROUPS[command.group],
            show=full or name == chosen or not command.noun,
        )
    if helping and not full and chosen in COMMANDS:
        words.only = _in_short_help(chosen, app[chosen])
        app[chosen].help_epilogue = epilogue(chosen, is_short=words.only is not None)
    for noun, line in NOUNS.items():
        commands = names_under(noun)
        under = App(
            name=noun,
            help=f"{line} Commands: {', '.join(commands)}.",
            help_epilogue=f"`regrade {commands[0]} --help` shows the options of a command: each is also one without the noun.",
            help_formatter=words,
            group=_MORE,
        )
        for name in commands:
            command = COMMANDS[name]
            under.command(
                f"regrade.cli.{command.function}", name=name, help=command.line, group=_BELOW
            )
        app.command(under)
    return app


def _shown_default(value: object) -> str | None:
    """Return the text of a default in the help; None hides it."""
    if isinstance(value, bool):
        return "on" if value else None
    return None if value is None or value == () else str(value)


def call(arguments: list[str]) -> None:
    """Run one command.

    Raises:
        UserError: If the command or an option is wrong.
    """
    full = HELP_ALL in arguments
    arguments = ["--help" if argument == HELP_ALL else argument for argument in arguments]
    command = arguments[0] if arguments else ""
    helping = not {"--help", "-h"}.isdisjoint(arguments)
    with quick_imports():
        if command in COMMANDS:
            import_module(f"regrade.cli.{COMMANDS[command].function.partition(':')[0]}")
        commands = command_line(command, helping=helping, full=full)
    try:
        commands(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        from regrade.cli.checking import problem_of  # noqa: PLC0415 - only a failure needs it

        raise UserError(problem_of(error, command)) from error
