"""What is worth trying again: failures of the Hub and of MLflow that may pass; nothing else."""

from typing import Any

from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from regrade.errors import HubError, TrackingError


def may_pass(_task: Task[Any, Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a failed task run is retried (Prefect's `retry_condition_fn`)."""
    error = state.result(raise_on_failure=False)
    return (isinstance(error, HubError) and error.retryable) or isinstance(error, TrackingError)
