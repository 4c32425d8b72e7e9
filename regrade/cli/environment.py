"""Default environment variables: telemetry off, short retries, log lines on the run page.

A variable that is set already is not changed.
"""

import os
import sys

from regrade.processes.environment import LIBRARY_DEFAULTS

_PREFECT = {
    # A run meets a lost server at several points; by default each of them waits for more than a minute.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    # Otherwise Prefect prints a page-long traceback for every event the server rejects.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    # Show regrade's log lines on the flow run's page, too.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "regrade",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


_PATIENT = {
    # Two minutes for each request, also of the flow runs: as in prefect.yaml, whose variables a worker's own override.
    "PREFECT_CLIENT_MAX_RETRIES": "6",
    "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "regrade",
}


def set_defaults(*, patient: bool = False) -> None:
    """Set the variables that are not set. Must run before Prefect, MLflow or huggingface_hub is imported.

    Args:
        patient: For a worker, which outlives restarts of its server.
    """
    # jsonschema, which Prefect imports, would build a grammar for a second, to check a format that nothing here uses.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    for name, value in (LIBRARY_DEFAULTS | (_PATIENT if patient else _PREFECT)).items():
        os.environ.setdefault(name, value)
