"""The commands `regrade evaluate`, `score`, `list` and the others: their groups, help, examples and exit codes."""

import re
from importlib import import_module
from typing import TYPE_CHECKING

from cyclopts import App, Group, Parameter
from cyclopts.exceptions import CycloptsError
from cyclopts.help import DefaultFormatter

from regrade.cli.nouns import NOUNS
from regrade.cli.short_help import IN_SHORT_HELP
from regrade.processes.importing import quick_imports
from regrade.settings.errors import UserError
from regrade.settings.project_folder import VERSION

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

# Groups of the commands, their examples, and their exit codes, as the help shows them.

VERDICTS = ("gate", "trigger")
"""Commands whose exit codes 1 and 2 are verdicts."""
GROUPS: dict[str, tuple[str, ...]] = {
    "Get answers": (
        "evaluate",
        "generate",
        "plan",
        "sweep",
        "tune",
        "import",
        "harness",
        "publish",
    ),
    "Grade and read": ("score", "judge", "label", "panel", "list", "show", "view", "diff"),
    "Compare and decide": ("compare", "gate", "noise", "promote", "replay", "chart"),
    "Hand on": ("report", "export", "publish-results", "verify"),
    "Servers and CI": ("trigger", "deploy", "worker"),
    "This installation": ("benchmarks", "scorers", "completion"),
}
"""Commands by what people do, in the order of the help. Names of commands that do not exist are left out."""
OTHER = Group("Other", sort_key=len(GROUPS) + 1)
"""Group of `--help`, `--version`, and of commands that `GROUPS` lacks."""
_MORE = Group("More commands, under a noun", sort_key=len(GROUPS))
_BELOW = Group("Commands")
EXAMPLES: dict[str, tuple[str, ...]] = {
    "evaluate": (
        "evaluate --model org/model --benchmark gsm8k --limit 50",
        "evaluate --model run/checkpoint-* --benchmark gsm8k",
        "evaluate --model ./checkpoint-500 --benchmark mmlu --benchmark gsm8k --answers hf://datasets/ORG/NAME",
        "evaluate --model served --engine openai --base-url http://127.0.0.1:8000/v1 --benchmark gsm8k_chat",
        "evaluate --model org/model --benchmark mmlu --baseline baseline --max-drop 1 --stop-when-sure",
        "evaluate --config evaluation.yaml",
    ),
    "generate": ("generate --model org/model --benchmark gsm8k --temperature 0.7 --repeats 8",),
    "plan": (
        "plan org/model --gpus 8 --gpu h100 --benchmark gsm8k_chat",
        "plan ./checkpoint --gpu-memory 24GiB --max-model-len 8192 --json",
    ),
    "harness": (
        "harness org/model --harness inspect --engine.tool-parser hermes -- inspect_evals/gaia --limit 20",
        "harness org/model --harness harbor -- --dataset terminal-bench@2.0 --agent terminus-2",
        "harness org/model -- my-agent --url {base_url} --model {model} --out {output}",
    ),
    "sweep": (
        "sweep --model org/model --benchmark gsm8k --in-flight 1,4,16",
        "sweep --model org/model --benchmark mmlu --engine.max-num-batched-tokens 8192,16384 --n-shots 0,5",
        "sweep --model org/model --model org/other --benchmark gsm8k --engine.quantization default,fp8",
    ),
    "tune": (
        "tune --model org/model --benchmark gsm8k",
        "tune --model org/model --benchmark gsm8k --ttft-p99 2 --tpot-p99 0.05",
    ),
    "chart": (
        "chart --benchmark gsm8k --image chart.svg",
        "chart --over money --gpu-hour 2.50",
        "chart --over money --token-price org/model=0.15,0.60",
    ),
    "report": ("report report.html", "report 1f0c6a2b report.md --baseline baseline"),
    "export": ("export 1f0c6a2b exported/ --format every-eval-ever --organization 'My team'",),
    "publish-results": ("publish-results org/model --pull-request",),
    "score": (
        "score --scorer my_scorer.py:score",
        "score --stale",
        "score --answers hf://datasets/ORG/NAME --model org/model",
    ),
    "judge": (
        "judge --judge org/judge-32b",
        "judge 1f0c6a2b --judge org/judge-32b --rubric accuracy_style --judge-repeats 3",
        "judge 1f0c6a2b --judge served --rubric pairwise --baseline baseline --engine openai --base-url http://127.0.0.1:8000/v1",
        "judge --judge org/judge-32b --self-test",
    ),
    "panel": ("panel 1f0c6a2b", "panel 1f0c6a2b --without org/judge-32b"),
    "label": (
        "label 1f0c6a2b --sample 200 --out labels.csv",
        "label 1f0c6a2b --read labels.csv --rater ana",
    ),
    "deploy": ("deploy",),
    "worker": ("worker --pool gpu",),
    "trigger": (
        "trigger evaluate-model --model org/model --benchmark gsm8k --wait",
        "trigger evaluate-model --model org/model --benchmark gsm8k --wait --baseline baseline --max-drop 3",
    ),
    "publish": ("publish",),
    "import": ("import results/ --answers ./answers", "import lm_eval_output/ --json"),
    "list": (
        "list",
        "list --model org/model --benchmark gsm8k --sort accuracy",
        "list --json",
    ),
    "diff": ("diff 1f0c6a2b", "diff 1f0c6a2b --baseline number@1 --to number"),
    "compare": ("compare baseline org/model", "compare 1f0c6a2b 77ab01cd --examples 5"),
    "gate": (
        "gate org/model --baseline baseline --max-drop 3",
        "gate org/model --max-drop 1 --max-drop-of gsm8k=3 --markdown verdict.md --junit verdict.xml",
    ),
    "noise": (
        "noise org/model --benchmark gsm8k",
        "noise org/model --benchmark gsm8k --in-flight 1 --limit 200",
    ),
    "promote": ("promote org/model", "promote 1f0c6a2b --alias release"),
    "replay": (
        "replay 1f0c6a2b --model org/model-fp8",
        "replay 1f0c6a2b --engine.kv-cache-dtype fp8",
        "replay 1f0c6a2b --own-model run/checkpoint-500 --model run/checkpoint-500-awq --json",
    ),
    "verify": ("verify", "verify 1f0c6a2b --answers hf://datasets/ORG/NAME"),
    "show": (
        "show org/model --wrong",
        "show 1f0c6a2b --verdict unparsed --truncated yes --page 2",
        "show 1f0c6a2b --search 'square root' --sort length --descending",
        "show 1f0c6a2b --baseline 77ab01cd --change worse",
    ),
    "view": ("view", "view hf://datasets/ORG/NAME 1f0c6a2b"),
    "benchmarks": ("benchmarks", "benchmarks 'arc*' --lm-eval"),
    "scorers": ("scorers",),
    "completion": ("completion", "completion bash --install"),
}
"""Command -> examples, without `regrade`. Each is one that the command accepts."""
HELP_ALL = "--help-all"
_FEW = 25
"""Longest list of choices in a short help, in characters."""
_SHOWN = 2
"""Examples in a short help, which use the options that it shows."""
_OPTION = re.compile(r"(?<!\S)--[a-z][\w.-]*")
DAILY = (
    "evaluate",
    "score",
    "list",
    "show",
    "view",
    "diff",
    "compare",
    "gate",
    "promote",
    "report",
)
"""Commands on the first page of the help, beside those of `This installation` and the nouns."""
_CODES = {
    "evaluate": "0 done, and with `--baseline` the verdict is pass; 1 failed, or another verdict; 2 bad usage or input, 130 interrupted, "
    "143 stopped",
    "gate": "0 pass, 1 regression, 2 cannot tell, 3 no verdict: bad usage, missing answers or a failure",
    "trigger": "0 started, or with --wait done and no regression; 1 regression; 2 cannot tell; 3 could not be run; "
    "4 cancelled; 5 not in time",
    "plan": "0 it fits, 1 nothing fits or failed, 2 bad usage or input, 130 interrupted, 143 stopped",
}
_USUAL = "0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 stopped"


_GROUPS = {
    command: group
    for number, (title, commands) in enumerate(GROUPS.items())
    for group in [Group(title, sort_key=number)]
    for command in commands
}


def group_of(command: str) -> Group:
    """Return the group of a command in the help."""
    return _GROUPS.get(command, OTHER)


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


def in_short_help(command: str) -> tuple[str, ...] | None:
    """Return the options in the `--help` of a command; None if it has all."""
    module, _, function = _implementation(command).partition(":")
    found: tuple[str, ...] | None
    found = vars(getattr(import_module(f"regrade.cli.{module}"), function)).get(IN_SHORT_HELP)
    return found


def _implementation(command: str) -> str:
    """Return the function that has the options of a command."""
    return "sweep:with_options" if command == "sweep" else COMMANDS[command][0]


def epilogue(command: str, *, is_short: bool = False) -> str:
    """Return the end of a command's help as markdown: examples and exit codes; of all commands for an empty name."""
    shown = EXAMPLES.get(command, ())
    if is_short and (options := in_short_help(command)) is not None:
        used = ({*_OPTION.findall(example.partition(" -- ")[0])} for example in shown)
        shown = tuple(text for text, its in zip(shown, used, strict=True) if its <= {*options})
        shown = shown[:_SHOWN]
    lines = [f"- `regrade {example}`" for example in shown]
    examples = ["Examples:", "", *lines, ""] if lines else []
    if not command:
        examples = [
            f"`regrade COMMAND --help` shows the options of a command, with examples; `regrade {HELP_ALL}` shows all commands. "
            "Those under a noun are also commands without it: `regrade import`.",
            "",
        ]
    codes = _CODES.get(command, _USUAL)
    more = "" if command else f" ({' and '.join(VERDICTS)} have others)"
    rest = f" `regrade {command} {HELP_ALL}` shows all options." if is_short else ""
    return "\n".join([*examples, f"Exit codes: {codes}{more}.{rest}"])


COMMANDS = {
    "evaluate": (
        "run:evaluate",
        "Evaluate a model: generate missing answers, publish, score and track them.",
    ),
    "generate": ("run:generate", "Generate and publish missing answers, without scoring them."),
    "sweep": (
        "sweep:sweep",
        "Evaluate at each point of a grid of settings: speed and accuracy, compared with the first point.",
    ),
    "tune": (
        "tune:tune",
        "Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept.",
    ),
    "score": ("run:score", "Score stored answers at one pinned commit, without a model."),
    "judge": (
        "judge:judge",
        "Let judge models grade stored answers, and keep their verdicts as answer sets of their own.",
    ),
    "panel": (
        "panel:show_panel",
        "Combine the verdicts of several judges on the same answers, and show how far they agree.",
    ),
    "deploy": ("deploy:deploy", "Create or update work pools and deployments on a Prefect server."),
    "worker": ("worker:worker", "Run the flow runs of a work pool on this machine."),
    "trigger": (
        "trigger.command:trigger",
        "Start a deployment on the Prefect server at PREFECT_API_URL.",
    ),
    "publish": (
        "publish:publish",
        "Publish answers that earlier runs on this machine left in the spool.",
    ),
    "import": ("import_answers:import_answers", "Import answers that other tools generated."),
    "harness": (
        "harness:harness",
        "Serve a model, run an external harness against it, and import its results.",
    ),
    "plan": (
        "plan:plan",
        "Plan a model's memory: the splits of GPUs that fit, and how many requests they hold.",
    ),
    "list": ("list:list_answers", "List answer sets and their scores."),
    "diff": (
        "diff:diff",
        "Compare two scorings of the same answers, such as before and after a change of the scorer.",
    ),
    "compare": (
        "compare:compare",
        "Compare two models, or two answer sets, question by question.",
    ),
    "chart": (
        "chart:chart",
        "Show models on accuracy over seconds, tokens or money per question, from stored answers.",
    ),
    "replay": (
        "replay:replay",
        "Read stored answers with another model, and say whether it is the same up to noise.",
    ),
    "gate": (
        "gate:gate",
        "Judge a candidate against the baseline: exit code 0 pass, 1 regression, 2 cannot tell.",
    ),
    "noise": (
        "noise:noise",
        "Ask a model the same questions again, and measure what an unchanged model changes.",
    ),
    "promote": ("promote:promote", "Make an answer set or a model the baseline."),
    "label": (
        "label:label",
        "Label answers by hand, and compare the verdicts of a judge or a scorer with the labels.",
    ),
    "verify": ("verify:verify", "Check the integrity of an answer repository."),
    "show": ("show:show", "Show the answers of an answer set."),
    "view": (
        "view:view",
        "Read answers in a browser: filter, compare, see what the scorer read.",
    ),
    "report": (
        "report:report",
        "Write a report to hand on: one file with results, changes, plots and answers.",
    ),
    "export": (
        "export:export",
        "Write an answer set in the format of another tool, and print the files.",
    ),
    "publish-results": (
        "publish_results:publish_results",
        "Write results into a model's repository on the Hub, for its page and the leaderboards.",
    ),
    "benchmarks": (
        "installed:benchmarks",
        "List the benchmarks with their versions and sources, and the suites.",
    ),
    "scorers": ("installed:scorers", "List the scorers with their versions and source hashes."),
    "completion": ("completion:completion", "Print or install the completion of a shell."),
}
"""Command -> function and first line of help. The function's docstring is the full help and begins with that line."""


def command_line(chosen: str = "", *, helping: bool = False, full: bool = False) -> App:
    """Return the commands; only the chosen one imports its module to show its full help.

    Args:
        chosen: Command that is called.
        helping: Its help is asked for.
        full: The help has all commands, or all options of the chosen one.
    """
    words = PlainWords()
    if helping and not full and chosen in COMMANDS:
        words.only = in_short_help(chosen)
    app = App(
        name="regrade",
        version=VERSION,
        help="Generate answers of language models once, keep them, and grade them as often as you like.",
        help_epilogue=epilogue(""),
        group_commands=OTHER,
        help_formatter=words,
        suppress_keyboard_interrupt=False,  # `run` handles it
        default_parameter=Parameter(
            negative_bool=(), negative_iterable=(), show_default=_shown_default
        ),
    )
    first_page = {*DAILY, *GROUPS["This installation"]}
    for name, (function, line) in COMMANDS.items():
        called = _implementation(name) if helping and name == chosen else function
        app.command(
            f"regrade.cli.{called}",
            name=name,
            help=None if name == chosen else line,
            help_epilogue=epilogue(name, is_short=name == chosen and words.only is not None),
            group=group_of(name),
            show=full or name == chosen or name in first_page,
        )
    for noun, (line, commands) in NOUNS.items():
        under = App(
            name=noun,
            help=f"{line} Commands: {', '.join(commands)}.",
            help_epilogue=f"`regrade {commands[0]} --help` shows the options of a command: each is also one without the noun.",
            help_formatter=words,
            group=_MORE,
        )
        for name in commands:
            function, first = COMMANDS[name]
            under.command(f"regrade.cli.{function}", name=name, help=first, group=_BELOW)
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
            import_module(f"regrade.cli.{COMMANDS[command][0].partition(':')[0]}")
        commands = command_line(command, helping=helping, full=full)
    try:
        commands(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        from regrade.cli.checking import problem_of  # noqa: PLC0415 - only a failure needs it

        raise UserError(problem_of(error, command)) from error
