"""One answer set on its way through a flow, and what all tasks share: retries, and hiding large values from Prefect.

Prefect walks through the dataclasses, lists and models that a task is given, and an answer set may have a hundred
thousand samples. It walks neither through plain classes such as `Work` nor through what is `hidden`.
"""

from typing import Any, TypeVar, cast

from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.tasks import Task
from prefect.utilities.annotations import quote

from regrade.answers.base import Repository
from regrade.answers.manifest import Session
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.errors import HubError, TrackingError
from regrade.generation import Plan
from regrade.records import Sample

_T = TypeVar("_T")


class Work:
    """A planned answer set, what is missing of it, and what has become of it.

    Args:
        plan: What is asked.
        repository: Where the answers go.
        spool: Journal of the answers that are not published yet; open while there is work.
    """

    def __init__(self, plan: Plan, repository: Repository, spool: Spool) -> None:
        self.plan = plan
        self.repository = repository
        self.spool = spool
        self.missing: list[tuple[Sample, int]] = []
        self.session: Session | None = None
        """What this flow run generated; None until it has."""
        self.publishing: PrefectFuture[None] | None = None
        """The task run that publishes the answers; None until it is submitted."""
        self.published: AnswerSet | None = None
        self.load_seconds = 0.0
        self.generate_seconds = 0.0
        self.publish_seconds = 0.0

    @property
    def title(self) -> str:
        """Benchmark and model, for people."""
        return self.plan.specification.title


def hidden(value: _T) -> _T:
    """Hide an argument of a task from Prefect; the task gets the value itself."""
    return cast("_T", quote(value))


def may_pass(_task: Task[Any, Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a failed task run is retried: after failures of the Hub or MLflow that may pass."""
    error = state.result(raise_on_failure=False)
    return (isinstance(error, HubError) and error.retryable) or isinstance(error, TrackingError)


def retried(*delays: float) -> dict[str, Any]:
    """Return options of a task that is retried after these delays, in seconds."""
    return {
        "cache_policy": NO_CACHE,
        "retries": len(delays),
        "retry_delay_seconds": list(delays),
        "retry_condition_fn": may_pass,
    }


RETRIED = retried(2, 10, 30)
PUBLISHING_RETRIED = retried(5, 15, 60, 300, 900)
