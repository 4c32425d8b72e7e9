"""A process that a worker started for a flow run: what its page says, and how it ends and does not end."""

import logging
import os
import threading
from functools import cache

from prefect.exceptions import ParameterTypeError

from regrade.errors import RegradeError
from regrade.orchestration.outliving import outlive_worker
from regrade.processes.shutdown import end_soon_after_signals

STARTED_BY_WORKER = "PREFECT__FLOW_RUN_ID"
"""Environment variable that Prefect sets in the process of a flow run."""
_REPEATED = "Engine execution exited"
"""How Prefect begins to tell the error of a flow once more."""


@cache
def set_up_if_under_worker() -> None:
    """Do what such a process needs, once; nothing in any other."""
    if STARTED_BY_WORKER not in os.environ:
        return
    if threading.current_thread() is threading.main_thread():
        # Else a run that was cancelled while MLflow was asked waits for its threads until the worker kills it, 30 s later.
        end_soon_after_signals()
    outlive_worker()
    tell_plainly()


def tell_plainly() -> None:
    """Show our log lines on the run's page, and errors raised on purpose as one line.

    Prefect sends the records of `PREFECT_LOGGING_EXTRA_LOGGERS` to the page, but leaves their level at WARNING.
    """
    logging.getLogger("regrade").setLevel(logging.INFO)
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addFilter(without_traceback)


def without_traceback(record: logging.LogRecord) -> bool:
    """Make one line of an error that says all there is to say (a filter for loggers)."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, RegradeError | ParameterTypeError):
        return True
    if record.getMessage().startswith(_REPEATED):
        return False
    record.msg, record.args = f"{type(error).__name__}: {error}", ()
    record.exc_info = record.exc_text = None
    return True
