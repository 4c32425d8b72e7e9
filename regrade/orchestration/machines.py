"""Start runs of `generate-answers` on several machines, one for each share, and wait for them.

They are subflow runs: cancelling the run that started them cancels them, and a retry of it finds them again.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, cast
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run
from prefect.states import Cancelled

from regrade.jobs.shares import Share
from regrade.orchestration.optional import optional
from regrade.settings.errors import OperationError, SettingsError

logger = logging.getLogger("regrade.generate")

DEPLOYMENT = "generate-answers/generate-answers"
POLL = 3.0
"""Seconds between two checks of the runs."""


class MachinesEndedError(OperationError):
    """The runs on other machines ended without a complete answer set."""


def start_machines(machines: int, parameters: Mapping[str, Any]) -> list[UUID]:
    """Start a run of `generate-answers` for each machine, or find that of an earlier try, and return their ids.

    Args:
        machines: Number of machines.
        parameters: Parameters of `generate-answers` as JSON values, without `share`.

    Raises:
        SettingsError: If the server has no such deployment, or its pool does not allow so many runs at a time.
    """
    with get_client(sync_client=True) as client:
        _check_pool(client, machines)
        queue = client.read_flow_run(UUID(str(flow_run.id))).work_queue_name
    shares = [Share(number, machines) for number in range(1, machines + 1)]
    runs = [_start(share, parameters, queue) for share in shares]
    for share, run in zip(shares, runs, strict=True):
        logger.info("share %s: flow run '%s'", share, run.name)
    return [run.id for run in runs]


def wait_for_machines(runs: Sequence[UUID], is_complete: Callable[[], bool]) -> None:
    """Wait until all runs have ended. Runs that did not begin are cancelled when the answers are complete.

    Args:
        runs: Ids of the flow runs.
        is_complete: Returns True if all answers are published.
    """
    ended: set[UUID] = set()
    with get_client(sync_client=True) as client:
        while True:
            states: dict[UUID, State[Any]] = {}
            with optional(logger, "the Prefect server does not return the states of the runs"):
                states = _states(client, runs)
            now_ended = {run for run, state in states.items() if state.is_final()}
            if now_ended - ended:
                ended = now_ended
                logger.info("%s", _counts(states))
                if len(ended) < len(runs) and is_complete():
                    _cancel_waiting(client, states)
            if len(ended) == len(runs):
                return
            time.sleep(POLL)


def machines_ended_early(runs: Sequence[UUID]) -> MachinesEndedError:
    """Return the error for the case that all runs ended before the answers were complete."""
    with get_client(sync_client=True) as client:
        counts = _counts(_states(client, runs))
    return MachinesEndedError(
        f"Not all answers are generated, and nothing is scored. {counts} *Retry* continues from there."
    )


def _check_pool(client: SyncPrefectClient, machines: int) -> None:
    try:
        pool = client.read_deployment_by_name(DEPLOYMENT).work_pool_name
        limit = client.read_work_pool(str(pool)).concurrency_limit
    except ObjectNotFound as error:
        raise SettingsError(
            f"machines: {machines} needs the deployment '{DEPLOYMENT}' on a Prefect server with workers, which "
            "`regrade deploy` creates. Without one, start the same command on each machine with `--share 1/N` to `N/N`."
        ) from error
    needed = machines + 1  # this run counts, too
    if limit is not None and limit < needed:
        raise SettingsError(
            f"machines: {machines} needs {needed} runs at a time, and pool '{pool}' allows {limit}. Raise its limit: "
            f"`prefect work-pool set-concurrency-limit {pool} {needed}`."
        )


def _start(share: Share, parameters: Mapping[str, Any], queue: str | None) -> FlowRun:
    """Return the run of a share. It is that of an earlier try of this flow run, unless that failed."""
    for attempt in count():
        started = run_deployment(  # a coroutine only inside an event loop
            DEPLOYMENT,
            parameters={**parameters, "share": str(share)},
            timeout=0,
            work_queue_name=queue,
            idempotency_key=f"{flow_run.id}-{share.number}-of-{share.of}-{attempt}",
        )
        run = cast("FlowRun", started)
        if run.state is None or not run.state.is_final() or run.state.is_completed():
            return run
    raise AssertionError


def _states(client: SyncPrefectClient, runs: Sequence[UUID]) -> dict[UUID, State[Any]]:
    return {run: state for run in runs if (state := _state(client, run)) is not None}


def _state(client: SyncPrefectClient, run: UUID) -> State[Any] | None:
    try:
        return client.read_flow_run(run).state
    except ObjectNotFound:
        return Cancelled(message="The run was deleted.")


def _cancel_waiting(client: SyncPrefectClient, states: Mapping[UUID, State[Any]]) -> None:
    for run, state in states.items():
        if state.is_scheduled():
            message = "The other machines have generated all answers."
            client.set_flow_run_state(run, Cancelled(message=message))


def _counts(states: Mapping[UUID, State[Any]]) -> str:
    counted = Counter(state.name or state.type.value for state in states.values())
    return f"Machines: {', '.join(f'{number} {name}' for name, number in sorted(counted.items()))}."
