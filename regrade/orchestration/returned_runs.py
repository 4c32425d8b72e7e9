"""Return the flow runs of a worker that is stopped to the server, so that the next worker continues them.

Prefect's own worker kills the processes of its runs when it is stopped. The runs stay Running until their heartbeats
are missed.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import httpx
from prefect.exceptions import PrefectException
from prefect.states import AwaitingRetry

from regrade.orchestration.remote.access import without_login
from regrade.processes.shutdown import GRACE

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.runner.runner import ProcessMapEntry

logger = logging.getLogger("prefect.regrade.worker")
NOT_CRASHED = {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule"}
"""Variable by which a flow run's process leaves its state to the worker when it gets SIGTERM."""
END_SECONDS = GRACE + 6.0
"""Longest wait for the processes of flow runs after SIGTERM."""
ANSWER_SECONDS = 5.0
"""Longest wait for the server to take a run back."""
POLL = 0.1
MESSAGE = (
    "Its worker was stopped. Finished answers are kept; the next worker of the pool continues."
)


async def return_runs(
    client: "PrefectClient", processes: "Mapping[UUID, ProcessMapEntry]", starting: Collection[UUID]
) -> None:
    """End the processes of flow runs, and return the runs that have not ended to the server.

    In this order, because a second process would find the spool locked.

    Args:
        client: Client of the server.
        processes: Processes by flow run. The runner removes a process that has ended, and may add one that was starting.
        starting: Flow runs that the worker has taken and whose process may still appear. The worker removes a run when its
            process is known to the server, or when it starts none.
    """
    told: set[UUID] = set()
    runs: set[UUID] = set()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while processes or starting:
                runs.update(processes, starting)
                for run in processes.keys() - told:
                    told.add(run)
                    with suppress(ProcessLookupError):
                        os.kill(processes[run]["pid"], signal.SIGTERM)
                await asyncio.sleep(POLL)
    for run in runs.intersection([*processes, *starting]):
        logger.warning("flow run %s: its process does not end", run)
    await asyncio.gather(
        *(_return_or_warn(client, run) for run in runs.difference(processes, starting))
    )


async def _return_or_warn(client: "PrefectClient", run: UUID) -> None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _return(client, run)
    except (httpx.HTTPError, PrefectException, TimeoutError) as error:
        problem = without_login(repr(error))
        logger.warning("flow run %s was not returned to the server: %s", run, problem)


async def _return(client: "PrefectClient", run: UUID) -> None:
    state = (await client.read_flow_run(run)).state
    if state is None or not (state.is_running() or state.is_pending()):
        return  # it has ended, is being cancelled, or was not started
    # With a process, a returned run that is cancelled would wait in Cancelling for a worker to end it. Before the state: the
    # next worker stores its own process. The client's method cannot store null.
    await client.request(
        "PATCH", "/flow_runs/{id}", path_params={"id": run}, json={"infrastructure_pid": None}
    )
    await client.set_flow_run_state(run, AwaitingRetry(message=MESSAGE))
    logger.info("flow run %s returned to the server", run)
