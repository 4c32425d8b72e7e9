"""Default environment variables: telemetry off, short retries, log lines on the run page.

Files that cannot import this module (prefect.yaml, infra/compose.yaml, images) repeat the variables that switch off
telemetry; tests/infra/test_telemetry.py compares them.
"""

import os
import sys

TELEMETRY_OFF = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "VLLM_NO_USAGE_STATS": "1",
}
LIBRARY_DEFAULTS = {**TELEMETRY_OFF, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
"""Variables for every process that runs flows, servers or engines."""

CHILD_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "TMPDIR",
    "VIRTUAL_ENV",
)
"""Variables of this process that a child process gets which only computes."""
_PREFECT = {
    # A run calls a lost server at several points; by default each call retries for more than a minute.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    # Otherwise Prefect prints a page-long traceback for every event the server rejects.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    # Show regrade's log lines on the flow run's page, too.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "regrade",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
_PATIENT = {
    # Two minutes for each request, also of flow runs: as in prefect.yaml, whose variables the worker's override.
    "PREFECT_CLIENT_MAX_RETRIES": "6",
    "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "regrade",
}


def set_defaults(*, patient: bool = False) -> None:
    """Set the default variables, except those that are set already.

    Must run before Prefect, MLflow or huggingface_hub is imported.

    Args:
        patient: Retry for longer: for a worker, which survives restarts of its server.
    """
    # jsonschema, which Prefect imports, would take a second to build the grammar of a format that is not used.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    for name, value in (LIBRARY_DEFAULTS | (_PATIENT if patient else _PREFECT)).items():
        os.environ.setdefault(name, value)
