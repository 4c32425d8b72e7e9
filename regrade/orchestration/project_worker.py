"""A Prefect process worker that runs only the flows of the installed regrade (`regrade worker`).

Its runs share one engine, and return to the server when it is stopped. `regrade.orchestration.project_job` limits what
a run may do; Prefect's hooks, which could be any function, are not run.
"""

import asyncio
import logging
import signal
import tempfile
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.runner.runner import Runner
from prefect.workers.base import BaseWorker
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from regrade.orchestration.project_job import ProjectJob
from regrade.orchestration.remote.access import client_settings
from regrade.orchestration.returned_runs import NOT_CRASHED, return_runs
from regrade.orchestration.worker import ENGINE_DONE, without_traceback
from regrade.processes.shutdown import GRACE, exit_now

POLL = 1.0
"""Seconds between two checks for flow runs that no longer need an engine."""


class _Runner(Runner):
    """Starts and watches the processes of flow runs.

    Prefect loads a flow in the worker's own process to run its hooks, with pull steps and entrypoint from the server. Our
    flows have no hooks.
    """

    def __init__(self) -> None:
        super().__init__(pause_on_shutdown=False, limit=None)
        # By default a folder in /tmp, which the first user on the machine creates for all.
        self._tmp_dir = self.folder = Path(tempfile.mkdtemp(prefix="regrade-worker-"))

    async def return_runs(self, starting: Collection[UUID]) -> None:
        """End the processes of all runs, starting ones included, and return the runs to the server."""
        self._rescheduling = True  # a process that fails from now on has not crashed
        await return_runs(self._client, self._flow_run_process_map, starting)

    async def _run_on_cancellation_hooks(self, flow_run: FlowRun, state: State) -> None:
        pass

    async def _run_on_crashed_hooks(self, flow_run: FlowRun, state: State) -> None:
        pass


class ProjectWorker(ProcessWorker):
    """The worker; see the module."""

    job_configuration = ProjectJob
    once = False
    """The worker ends after the runs that are scheduled now: no further run follows them."""
    stopping = False
    """The worker starts no further runs."""

    @classmethod
    def __dispatch_key__(cls) -> str:
        """Key in Prefect's registry; with the key of the parent class it would replace that."""
        return "regrade-process"

    async def __aenter__(self) -> Self:
        """Connect to the server."""
        # First in, last out: when the worker ends, runs that are still starting need the runner. Prefect enters it last, and
        # each of those runs then enters it once more, which fails now and then.
        self._runner = await self._exit_stack.enter_async_context(_Runner())
        await BaseWorker.__aenter__(self)
        return self

    async def run(
        self,
        flow_run: FlowRun,
        configuration: ProcessJobConfiguration,
        task_status: Any = None,  # noqa: ANN401 - of anyio, a dependency of Prefect
    ) -> ProcessWorkerResult:
        """Run a flow run to its end. It counts against the worker's limit only while it may need an engine.

        A worker that is stopping starts no process: it returns the run to the server.
        """
        if self.stopping:
            if task_status is not None:
                task_status.started(0)  # no process to store
            return ProcessWorkerResult(status_code=0, identifier="")
        done = cast("_Runner", self._runner).folder / f"{flow_run.id}.done"
        configuration.env |= {ENGINE_DONE: str(done), **NOT_CRASHED}
        watching = asyncio.create_task(self._make_room(flow_run.id, done))
        try:
            return await super().run(flow_run, configuration, task_status)
        finally:
            watching.cancel()
            done.unlink(missing_ok=True)

    async def _submit_scheduled_flow_runs(
        self, flow_run_response: list[WorkerFlowRunResponse]
    ) -> list[FlowRun]:
        """Start runs. Runs that use a server elsewhere do not wait for the engine of this machine."""
        if self.stopping:
            return []
        elsewhere = [entry for entry in flow_run_response if runs_elsewhere(entry.flow_run)]
        limiter, self._limiter = self._limiter, None
        try:
            started = await super()._submit_scheduled_flow_runs(elsewhere)
        finally:
            self._limiter = limiter
        here = [entry for entry in flow_run_response if not runs_elsewhere(entry.flow_run)]
        return started + await super()._submit_scheduled_flow_runs(here)

    async def work(self, *, health_check: bool) -> None:
        """Run flow runs until SIGTERM or SIGINT; then return those that have not ended to the server."""
        working = asyncio.create_task(self.start(run_once=self.once, with_healthcheck=health_check))
        told = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        waiting = asyncio.create_task(told.wait())
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not working.done():
            self.stopping = True
            runner: _Runner | None = getattr(self, "_runner", None)  # None until it is connected
            if runner is not None:
                await runner.return_runs(self._submitting_flow_run_ids)
            _end_soon()
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working

    async def _propose_crashed_state(
        self, flow_run: FlowRun, message: str, client: PrefectClient | None = None
    ) -> None:
        """Report a run as crashed, unless this worker ended its process: then the run is returned to the server."""
        if not self.stopping:
            await super()._propose_crashed_state(flow_run, message, client)

    async def _make_room(self, flow_run_id: UUID, done: Path) -> None:
        while self.once or not done.exists():
            await asyncio.sleep(POLL)
        self._release_limit_slot(flow_run_id)


def runs_elsewhere(flow_run: FlowRun) -> bool:
    """Return True if the answers of a flow run come from a server, so that it needs no engine on this machine."""
    engine = flow_run.parameters.get("engine")
    return isinstance(engine, Mapping) and (engine.get("kind") == "openai" or "base_url" in engine)


def run_worker(
    pool: str,
    *,
    name: str | None,
    queues: list[str],
    limit: int | None,
    health_check: bool,
    once: bool,
) -> None:
    """Run the worker until a signal ends it, or until the scheduled runs have ended if `once`."""
    with get_client(sync_client=True, httpx_settings=client_settings()) as client:
        client.hello()  # else Prefect's worker prints tracebacks of its own tasks
    logging.getLogger("prefect.flow_runs.worker").addFilter(without_traceback)  # refused runs
    worker = ProjectWorker(
        name=name,
        work_pool_name=pool,
        work_queues=queues,
        limit=limit,
        create_pool_if_not_found=False,  # `regrade deploy` creates pools
    )
    worker.once = once
    asyncio.run(worker.work(health_check=health_check))


def _end_soon() -> None:
    """End this process soon, even if a thread or a request still waits."""
    timer = threading.Timer(GRACE, exit_now, [0])
    timer.daemon = True
    timer.start()
