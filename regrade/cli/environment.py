"""Default environment variables: telemetry off, short retries, log lines on the run page.

A variable that is set already stays as it is.
"""

import os

from regrade.processes.environment import LIBRARY_DEFAULTS

_PREFECT = {
    # A lost server is noticed at several points of a run; by default each takes more than a minute.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    # Otherwise Prefect prints a page-long traceback for every event the server rejects.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    # Our log lines are shown on the flow run's page too.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "regrade",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def set_defaults() -> None:
    """Set the variables that are not set. Call it before Prefect, MLflow or huggingface_hub are imported."""
    for name, value in (LIBRARY_DEFAULTS | _PREFECT).items():
        os.environ.setdefault(name, value)
