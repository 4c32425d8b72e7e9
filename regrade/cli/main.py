"""The command line: `regrade evaluate`, `score`, `list` and the others.

Exit codes: 0 done, 1 something failed, 2 bad usage or input, 130 interrupted, 143 stopped by SIGTERM.
Of `VERDICTS` 1 and 2 are verdicts, and 3 stands for both failures.
"""

import os
import sys
from types import TracebackType

from cyclopts import App
from cyclopts.exceptions import CycloptsError

from regrade import __version__
from regrade.cli.environment import set_defaults
from regrade.errors import RegradeError, UserError
from regrade.processes.shutdown import KEPT, end_on_signals, exit_code, leave

VERDICTS = ("gate", "trigger")
COULD_NOT_RUN = 3

app = App(
    name="regrade",
    version=__version__,
    help="Generate answers of language models once, keep them, and grade them as often as you like.",
    suppress_keyboard_interrupt=False,  # we say what is kept
)
# Named, not imported: `regrade --help` need not load what only the commands need.
app.command(
    "regrade.cli.run:evaluate",
    name="evaluate",
    help="Generate what is missing, publish, score, track, report.",
)
app.command(
    "regrade.cli.run:generate",
    name="generate",
    help="Only generate what is missing, and publish it.",
)
app.command("regrade.cli.run:score", name="score", help="Grade stored answers, without a model.")
app.command(
    "regrade.cli.deploy:deploy",
    name="deploy",
    help="Create or update work pools and deployments on a Prefect server.",
)
app.command(
    "regrade.cli.trigger.command:trigger",
    name="trigger",
    help="Start a deployment on a Prefect server, follow it, and return its verdict.",
)
app.command(
    "regrade.cli.publish:publish",
    name="publish",
    help="Publish answers that earlier runs left in the spool.",
)
app.command(
    "regrade.cli.import_answers:import_answers",
    name="import",
    help="Make answer sets of answers that other tools made.",
)
app.command("regrade.cli.list:list_answers", name="list", help="List answer sets and their scores.")
app.command(
    "regrade.cli.diff:diff",
    name="diff",
    help="Compare two scorings of the same answers: what a changed scorer changed.",
)
app.command(
    "regrade.cli.compare:compare",
    name="compare",
    help="Compare two models, or two answer sets, question by question.",
)
app.command(
    "regrade.cli.gate:gate",
    name="gate",
    help="Is it worse than the baseline? Exit code 0 pass, 1 regression, 2 cannot tell.",
)
app.command(
    "regrade.cli.promote:promote",
    name="promote",
    help="Make an answer set or a model the baseline.",
)
app.command(
    "regrade.cli.verify:verify",
    name="verify",
    help="Check that an answer repository holds what it says.",
)
app.command("regrade.cli.show:show", name="show", help="Read actual answers of one answer set.")
app.command(
    "regrade.cli.benchmarks:benchmarks", name="benchmarks", help="List the benchmarks there are."
)
app.command("regrade.cli.scorers:scorers", name="scorers", help="List the scorers there are.")


def main() -> None:
    """Run the command line and exit."""
    set_defaults()
    if sys.argv[1:2] and sys.argv[1] in VERDICTS:
        sys.excepthook = _crashed
    end_on_signals()
    code = run(sys.argv[1:])
    if code == 0:
        sys.exit(code)
    # At its exit, Prefect waits more than a minute for a server that is gone, or for a task that is to be tried again.
    leave(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        app(arguments, exit_on_error=False, result_action="return_none")
    except CycloptsError:
        return _code(arguments, 2)  # printed by cyclopts
    except UserError as error:
        return _failed(str(error), _code(arguments, 2))
    except RegradeError as error:
        return _failed(str(error), _code(arguments, 1))
    except KeyboardInterrupt as error:
        return _failed(f"Interrupted. {KEPT}", exit_code(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `regrade list | head`
        return _code(arguments, 0)
    return 0


def _code(arguments: list[str], code: int) -> int:
    return COULD_NOT_RUN if arguments[:1] and arguments[0] in VERDICTS else code


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error that nobody expected; Python's own exit code for it is 1, which would be a verdict."""
    sys.__excepthook__(kind, error, trace)
    leave(COULD_NOT_RUN)


def _failed(message: str, code: int) -> int:
    from regrade.cli.terminal import visible  # noqa: PLC0415 - only what fails needs it

    sys.stderr.write(f"regrade: {visible(message)}\n")
    return code


if __name__ == "__main__":
    main()
