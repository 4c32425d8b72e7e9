"""The command line, from its start to its exit code: `regrade.cli.command_list` has the commands.

Nothing slow is imported before signals are handled.

Exit codes: see `regrade.cli.command_list`. For commands with `gives_verdict`, 1 and 2 are verdicts.
"""

import atexit
import os
import sys
import threading
from contextlib import suppress

from regrade.cli.command_list import COMMANDS, without_noun
from regrade.cli.naming import NAMING
from regrade.processes.environment import set_defaults
from regrade.processes.importing import quick_imports
from regrade.processes.shutdown import (
    INTERRUPTED,
    end_on_signals,
    exit_code,
    exit_now,
    interruptible,
    signal_received,
)
from regrade.settings.errors import COULD_NOT_RUN, RegradeError, UserError

WORKER = "worker"


def main() -> None:
    """Run the command line and exit."""
    arguments = without_noun(sys.argv[1:])
    command = arguments[0] if arguments else ""
    is_done = threading.Event()
    atexit.register(_exit_at_last, is_done)  # registered before all others, so it runs after them
    end_on_signals(soon=command != WORKER)  # a worker waits for the end of its runs
    set_defaults(patient=command == WORKER)
    known = COMMANDS.get(command)
    if (
        known
        and known.runs_flow
        and not any(a == "-h" or a.startswith("--help") for a in arguments)
    ):
        code = _run_with_server(arguments)
    else:
        code = run(arguments)
    if code == 0:
        is_done.set()
        sys.exit(code)
    # A normal exit waits more than a minute if Prefect lost its server or a task is to be retried.
    exit_now(code)


def _run_with_server(arguments: list[str]) -> int:
    """Run a command whose flow finds a server begun; one that is refused before leaves no log of it."""
    from regrade.orchestration.server import begin_server, begun_server  # noqa: PLC0415 - few commands need it

    with suppress(OSError, UserError):  # the command tells of them, such as of a log
        begin_server()
    code = run(arguments)
    if (unused := begun_server()) is not None:  # it ends with this process
        unused.log.unlink(missing_ok=True)
    return code


def _exit_at_last(is_done: threading.Event) -> None:
    """Exit before Python takes itself apart: that takes time, and a signal would then end it without a line."""
    if is_done.is_set():
        exit_now(0)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    arguments = without_noun(arguments)
    NAMING.set(str)
    try:
        with interruptible():
            with quick_imports():
                from regrade.cli.commands import call  # noqa: PLC0415 - slow: see the module

            call(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        return _failed(INTERRUPTED, exit_code(error), arguments)
    except Exception as error:  # noqa: BLE001 - the last handler: nothing ends in a traceback
        return _ended(error, arguments)
    return 0


def _ended(error: Exception, arguments: list[str]) -> int:
    """Tell why a command ended and return its exit code."""
    if number := signal_received():  # a library made an error of its own of the interruption
        return _failed(INTERRUPTED, 128 + number, arguments)
    command = COMMANDS.get(arguments[0] if arguments else "")
    could_not_run = COULD_NOT_RUN if command and command.gives_verdict else 0
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `regrade list | head`
        return could_not_run
    if isinstance(error, RegradeError):
        usual = 2 if isinstance(error, UserError) else 1
        return _failed(str(error), could_not_run or usual, arguments)
    from regrade.cli.output import log_unforeseen  # noqa: PLC0415 - only a failure needs it

    return _failed(log_unforeseen(error), could_not_run or 1, arguments)


def _failed(message: str, code: int, arguments: list[str]) -> int:
    """Print an error on stderr; with `--json` also as a document on stdout, unless that has the result."""
    from regrade.cli.output import show_error  # noqa: PLC0415 - only a failure needs these
    from regrade.text.text import visible  # noqa: PLC0415

    message = NAMING.get()(message)
    if "--json" in arguments:
        show_error(message, code)
    sys.stderr.write(f"regrade: {visible(message)}\n")
    return code


if __name__ == "__main__":
    main()
