"""The command line: `regrade evaluate`, `score`, `list` and the others.

Exit codes: see `regrade.cli.help`. For the commands in `VERDICTS`, 1 and 2 are verdicts.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import TracebackType

from cyclopts import App, Parameter
from cyclopts.exceptions import CycloptsError

from regrade import __version__
from regrade.cli.environment import set_defaults
from regrade.cli.help import OTHER, VERDICTS, PlainWords, epilogue, group_of
from regrade.errors import COULD_NOT_RUN, RegradeError, UserError
from regrade.processes.importing import quick_imports
from regrade.processes.shutdown import KEPT, end_on_signals, exit_code, exit_now

WORKER = "worker"
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
    "gate": (
        "gate:gate",
        "Judge a candidate against the baseline: exit code 0 pass, 1 regression, 2 cannot tell.",
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
"""Command -> function and first line of help. The function's docstring is the full help and begins with that line.

`regrade.cli.help` has the groups and the examples.
"""


def command_line(chosen: str = "") -> App:
    """Return the commands; only the chosen one imports its module to show its full help."""
    app = App(
        name="regrade",
        version=__version__,
        help="Generate answers of language models once, keep them, and grade them as often as you like.",
        help_epilogue=epilogue(""),
        group_commands=OTHER,
        help_formatter=PlainWords(),
        suppress_keyboard_interrupt=False,  # `run` handles it
        default_parameter=Parameter(
            negative_bool=(), negative_iterable=(), show_default=_shown_default
        ),
    )
    for name, (function, line) in COMMANDS.items():
        app.command(
            f"regrade.cli.{function}",
            name=name,
            help=None if name == chosen else line,
            help_epilogue=epilogue(name),
            group=group_of(name),
        )
    return app


def _shown_default(value: object) -> str | None:
    """Return the text of a default in the help; None hides it."""
    if isinstance(value, bool):
        return "on" if value else None
    return None if value is None or value == () else str(value)


def main() -> None:
    """Run the command line and exit."""
    command = sys.argv[1] if sys.argv[1:] else ""
    set_defaults(patient=command == WORKER)
    if command in VERDICTS:
        sys.excepthook = _crashed
    if command != WORKER:  # it waits for the end of its runs
        end_on_signals()
    code = run(sys.argv[1:])
    if code == 0:
        sys.exit(code)
    # A normal exit waits more than a minute if Prefect lost its server or a task is to be retried.
    exit_now(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    command = arguments[0] if arguments else ""
    try:
        with quick_imports():
            if command in COMMANDS:
                import_module(f"regrade.cli.{COMMANDS[command][0].partition(':')[0]}")
            commands = command_line(command)
        commands(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        from regrade.cli.usage import problem_of  # noqa: PLC0415 - only a failure needs it

        return _failed(problem_of(error, command), _code(command, 2), arguments)
    except UserError as error:
        return _failed(str(error), _code(command, 2), arguments)
    except RegradeError as error:
        return _failed(str(error), _code(command, 1), arguments)
    except KeyboardInterrupt as error:
        return _failed(f"Interrupted. {KEPT}", exit_code(error), arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `regrade list | head`
        return _code(command, 0)
    return 0


def _code(command: str, code: int) -> int:
    return COULD_NOT_RUN if command in VERDICTS else code


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an unexpected error. Python would exit with code 1, which is a verdict."""
    sys.__excepthook__(kind, error, trace)
    exit_now(COULD_NOT_RUN)


def _failed(message: str, code: int, arguments: Sequence[str]) -> int:
    """Print an error on stderr; with `--json` also as a document on stdout, unless that has the result."""
    from regrade.cli.output import show_error  # noqa: PLC0415 - only a failure needs these
    from regrade.reporting.text import visible  # noqa: PLC0415

    if "--json" in arguments:
        show_error(message, code)
    sys.stderr.write(f"regrade: {visible(message)}\n")
    return code


if __name__ == "__main__":
    main()
