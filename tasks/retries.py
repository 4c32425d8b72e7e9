"""Retries of tasks, as Prefect's options."""

from typing import Any

from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from tasks.step import DELAYS, PUBLISHING_DELAYS, may_pass


def is_temporary(_task: Task[Any, Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Retry condition of the tasks: True after a temporary error of the Hub or an error of MLflow."""
    return may_pass(state.result(raise_on_failure=False))


def retried(*delays: float) -> dict[str, Any]:
    """Task options that retry after these delays, in seconds."""
    if not delays:
        return {"cache_policy": NO_CACHE}
    return {
        "cache_policy": NO_CACHE,
        "retries": len(delays),
        "retry_delay_seconds": list(delays),
        "retry_condition_fn": is_temporary,
    }


RETRIED = retried(*DELAYS)
PUBLISHING_RETRIED = retried(*PUBLISHING_DELAYS)
