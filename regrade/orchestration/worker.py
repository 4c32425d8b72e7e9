"""Set up a flow run that a Prefect worker started: logging, signals, output."""

import logging
import os
import select
import stat
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

from prefect.exceptions import ParameterTypeError

from regrade.processes.shutdown import end_soon_after_signals
from regrade.settings.errors import RegradeError
from regrade.settings.worker_limits import STARTED_BY_WORKER

ENGINE_DONE = "REGRADE_ENGINE_DONE"
"""Environment variable naming the file that a flow run creates when it needs no engine any more."""
_REPEATED = "Engine execution exited"
"""Start of the log line in which Prefect repeats the flow's error."""
_OUTPUTS = (1, 2)


@cache
def set_up_if_under_worker() -> None:
    """Set up logging, signals and output, once, if a worker started this process."""
    if not runs_under_worker():
        return
    if threading.current_thread() is threading.main_thread():
        # Otherwise a run that is cancelled during a request to MLflow waits for its threads until it is killed, 30 s later.
        end_soon_after_signals()
    discard_unread_output()
    configure_run_logs()


def runs_under_worker() -> bool:
    """Return True if a worker started this process."""
    return STARTED_BY_WORKER in os.environ


def engine_no_longer_needed() -> None:
    """Tell the worker that started this flow run to start the next one, which may need the engine's GPU. Idempotent."""
    if path := os.environ.get(ENGINE_DONE):
        with suppress(OSError):  # the worker has ended
            Path(path).touch()


def configure_run_logs() -> None:
    """Send regrade's log lines to the run page; log regrade's errors without traceback.

    Prefect sends the records of `PREFECT_LOGGING_EXTRA_LOGGERS` to the page, but leaves the level at WARNING.
    """
    logging.getLogger("regrade").setLevel(logging.INFO)
    for name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
        logging.getLogger(name).addFilter(without_traceback)


def without_traceback(record: logging.LogRecord) -> bool:
    """Shorten the record of a regrade error to one line (a filter for loggers)."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, RegradeError | ParameterTypeError):
        return True
    if record.getMessage().startswith(_REPEATED):
        return False
    record.msg, record.args = f"{type(error).__name__}: {error}", ()
    record.exc_info = record.exc_text = None
    return True


def discard_unread_output() -> None:
    """Redirect stdout and stderr to /dev/null once the worker that reads them has ended.

    Otherwise the next printed line ends the flow run, because Prefect's console exits at a broken pipe. Log lines still
    reach the server.
    """
    pipes = [number for number in _OUTPUTS if stat.S_ISFIFO(os.fstat(number).st_mode)]
    if pipes:
        threading.Thread(target=_redirect, args=(pipes,), name="output", daemon=True).start()


def _redirect(pipes: list[int]) -> None:
    poll = select.poll()
    for number in pipes:
        poll.register(number, 0)  # errors only: the reader has closed its end
    poll.poll()
    null = os.open(os.devnull, os.O_WRONLY)
    for number in pipes:
        os.dup2(null, number)
