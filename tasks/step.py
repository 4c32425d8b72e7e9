"""Call a task: as a task run inside a flow run, else as a function with the same retries.

`regrade score` without a Prefect server runs the steps of its flow as functions, because a temporary server takes longer to
start than the scoring itself.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Any, ParamSpec, TypeVar

from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.tasks import Task
from prefect.utilities.annotations import quote

from regrade.errors import RegradeError
from tasks.work import may_pass

logger = logging.getLogger("regrade")
THREADS = 4
"""Answer sets scored at the same time outside a flow run."""
_P = ParamSpec("_P")
_R = TypeVar("_R")
Started = PrefectFuture[_R] | Future[_R]


def in_flow_run() -> bool:
    """Return True inside a flow run, which has a page in Prefect."""
    return FlowRunContext.get() is not None


def call(task: Task[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a task and return its result; errors are those of the task."""
    if in_flow_run():
        return task(*args, **kwargs)
    return _as_function(task, args, kwargs)


def start(task: Task[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> "Started[_R]":
    """Start a task in another thread."""
    if in_flow_run():
        return task.submit(*args, **kwargs)
    return _threads().submit(copy_context().run, _as_function, task, args, kwargs)


def error_of(started: "Started[Any]") -> BaseException | None:
    """Wait for a task and return the error with which it failed; None without one.

    Raises:
        BaseException: If it was cancelled, or its thread crashed.
    """
    if isinstance(started, Future):
        return started.exception()
    started.wait()
    if not started.state.is_failed():
        started.result()
        return None
    error: BaseException = started.state.result(raise_on_failure=False)
    return error


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="task")


def _as_function(task: Task[Any, _R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _R:
    function: Callable[..., _R] = task.fn
    plain = [arg.unquote() if isinstance(arg, quote) else arg for arg in args]
    delays: object = task.retry_delay_seconds  # 0 without retries
    for delay in delays if isinstance(delays, list) else []:
        try:
            return function(*plain, **kwargs)
        except RegradeError as error:
            if not may_pass(error):
                raise
            logger.warning("%s Trying again in %g s.", error, delay)
            time.sleep(delay)
    return function(*plain, **kwargs)
