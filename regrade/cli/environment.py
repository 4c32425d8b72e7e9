"""Defaults of the libraries around us: nothing is reported to anybody, and a slow machine gets time to start.

A variable that is set already stays as it is.
"""

import os

QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "VLLM_NO_USAGE_STATS": "1",
}
EMBEDDED = {
    # A server that is gone is noticed at several points of a run; by default each takes more than a minute.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    # Else each event that such a server does not take is printed, a page long, between our lines.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    # Our log lines are shown on the flow run's page too.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "regrade",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def set_defaults() -> None:
    """Set what is not set yet. Call it before Prefect, MLflow or huggingface_hub are imported."""
    for name, value in (QUIET | EMBEDDED).items():
        os.environ.setdefault(name, value)
