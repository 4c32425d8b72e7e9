"""Steps that need no flow run: a task run inside a flow run, else a function with the same retries.

`regrade score` without a Prefect server runs the steps of its flow as functions, because a temporary server takes longer to
start than the scoring itself. Nor does it import Prefect, which takes about as long: this file does so only inside a flow run.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, cast

from regrade.settings.errors import RegradeError, may_pass

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State, TaskRun
    from prefect.futures import PrefectFuture
    from prefect.tasks import Task

logger = logging.getLogger("regrade")
DELAYS = (2, 10, 30)
"""Seconds before each retry of a step."""
PUBLISHING_DELAYS = (5, 15, 60, 300, 900)
"""Seconds before each retry of publishing, on which computed results depend."""
THREADS = 4
"""Answer sets scored at the same time outside a flow run."""
_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
Started: TypeAlias = "PrefectFuture[_R] | Future[_R]"


def in_flow_run() -> bool:
    """Return True inside a flow run, which has a page in Prefect."""
    context = sys.modules.get("prefect.context")
    return context is not None and context.FlowRunContext.get() is not None


class Step(Generic[_P, _R]):
    """A function that is a task run inside a flow run."""

    def __init__(
        self, function: Callable[_P, _R], name: str, run_name: str, delays: Sequence[float]
    ) -> None:
        self._function = function
        self._name, self._run_name, self._delays = name, run_name, delays

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call it and return its result; errors are those of the function."""
        if in_flow_run():
            return self._task(*args, **kwargs)
        return self._retried(args, kwargs)

    def start(self, *args: _P.args, **kwargs: _P.kwargs) -> "Started[_R]":
        """Start it in another thread."""
        if in_flow_run():
            return self._task.submit(*args, **kwargs)
        return _threads().submit(copy_context().run, self._retried, args, kwargs)

    @cached_property
    def _task(self) -> "Task[_P, _R]":
        from prefect import task  # noqa: PLC0415 - as the module says

        options = retried(*self._delays)
        return task(name=self._name, task_run_name=self._run_name, **options)(self._function)

    def _retried(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _R:
        for delay in self._delays:
            try:
                return self._function(*args, **kwargs)
            except RegradeError as error:
                if not may_pass(error):
                    raise
                logger.warning("%s Trying again in %g s.", error, delay)
                time.sleep(delay)
        return self._function(*args, **kwargs)


def step(
    name: str, *, run_name: str | None = None, delays: Sequence[float] = ()
) -> Callable[[Callable[_P, _R]], Step[_P, _R]]:
    """Make a function a step.

    Args:
        name: Name of the task.
        run_name: Template of the name of a task run, with arguments of the function. None: as `name`.
        delays: Seconds before each retry after an error that may pass.
    """
    return lambda function: Step(function, name, run_name or name, delays)


def retried(*delays: float) -> dict[str, Any]:
    """Return the options of a Prefect task that retries after these delays, in seconds."""
    from prefect.cache_policies import NO_CACHE  # noqa: PLC0415 - as the module says

    if not delays:
        return {"cache_policy": NO_CACHE}
    return {
        "cache_policy": NO_CACHE,
        "retries": len(delays),
        "retry_delay_seconds": list(delays),
        "retry_condition_fn": _failed_temporarily,
    }


def error_of(started: "Started[Any]") -> BaseException | None:
    """Wait for a step and return the error with which it failed; None without one.

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


def hidden(value: _T) -> _T:
    """Keep Prefect from visiting an argument of a task; the task gets the value unchanged.

    Prefect visits every element of the dataclasses, lists and models that a task gets, which is slow for an answer set
    with 100,000 samples.
    """
    if not in_flow_run():
        return value
    from prefect.utilities.annotations import quote  # noqa: PLC0415 - as the module says

    return cast("_T", quote(value))


def _failed_temporarily(_task: "Task[Any, Any]", _run: "TaskRun", state: "State[Any]") -> bool:
    return may_pass(state.result(raise_on_failure=False))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="task")
