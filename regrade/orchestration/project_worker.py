"""A Prefect process worker that runs only the flows of the installed regrade (`regrade worker`).

Prefect's own worker runs whatever the server names: a deployment's pull steps and entrypoint, a command, a working folder and
environment variables of a flow run or a pool, any function as a hook's flow. Whoever can write to the server can then run a
shell on every worker. This worker takes from the server only which of the installed flows to run, with which parameters.
"""

import asyncio
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast
from uuid import UUID

import yaml
from prefect.client.schemas.objects import Flow as APIFlow
from prefect.client.schemas.objects import FlowRun, State, WorkPool
from prefect.client.schemas.responses import DeploymentResponse, WorkerFlowRunResponse
from prefect.runner.runner import Runner
from prefect.utilities.processutils import command_to_string
from prefect.utilities.templating import PlaceholderType, find_placeholders
from prefect.workers.base import BaseWorker
from prefect.workers.process import (
    ProcessJobConfiguration,
    ProcessWorker,
    ProcessWorkerResult,
)

from regrade.engines.vllm_process.extra import REMOTE_CODE
from regrade.engines.vllm_process.slot import SLOTS_VARIABLE
from regrade.errors import OperationError
from regrade.models.served import API_KEYS
from regrade.orchestration.returned_runs import NOT_CRASHED, return_runs
from regrade.orchestration.worker import ENGINE_DONE, without_traceback
from regrade.processes.shutdown import GRACE, exit_now
from regrade.project_folder import is_checkout, project_folder

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

ENTRYPOINT = "PREFECT__FLOW_ENTRYPOINT"
"""Variable with which Prefect's engine loads a flow without asking the server for the deployment's code."""
PROCESS = "regrade.orchestration.flow_run_process"
POLL = 1.0
"""Seconds between two looks whether a flow run still needs an engine."""


class RefusedRunError(OperationError):
    """The server names code or settings that are not those of the installed regrade."""

    def __init__(self, problem: str, advice: str) -> None:
        self.problem, self.advice = problem, advice
        super().__init__(problem, advice)

    def __str__(self) -> str:
        return f"This worker runs only the flows of the regrade that is installed with it: {self.problem} {self.advice}"


class ProjectJob(ProcessJobConfiguration):
    """Command and environment of a flow run's process."""

    @classmethod
    async def resolve_for_flow_run(
        cls,
        flow_run: FlowRun,
        *,
        client: "PrefectClient",
        work_pool: WorkPool,
        worker_name: str,
        worker_id: UUID | None = None,
        deployment: DeploymentResponse | None = None,
    ) -> Self:
        """Return the configuration of a flow run.

        Raises:
            RefusedRunError: If the run is not one of the installed flows, or its settings could run other code.
        """
        if deployment is None and flow_run.deployment_id is not None:
            deployment = await client.read_deployment(flow_run.deployment_id)
        entrypoint = installed_entrypoint(deployment)
        configuration = await super().resolve_for_flow_run(
            flow_run,
            client=client,
            work_pool=work_pool,
            worker_name=worker_name,
            worker_id=worker_id,
            deployment=deployment,
        )
        configuration.env = limits(configuration.env)
        # The process would ask the server again, which may have changed its answer.
        configuration.env[ENTRYPOINT] = entrypoint
        if is_checkout():
            paths = [str(project_folder()), *filter(None, [os.environ.get("PYTHONPATH")])]
            configuration.env["PYTHONPATH"] = os.pathsep.join(paths)
        return configuration

    @classmethod
    async def from_template_and_values(
        cls,
        base_job_template: dict[str, Any],
        values: dict[str, Any],
        client: "PrefectClient | None" = None,
    ) -> Self:
        """Return the configuration that pool, deployment and flow run ask for.

        Raises:
            RefusedRunError: If they ask for another command, working folder or environment variable.
        """
        _refuse_references(base_job_template, values)
        asked = cast(
            "Self", await super().from_template_and_values(base_job_template, values, client=client)
        )
        for name in ("command", "working_dir"):
            if getattr(asked, name) is not None:
                raise RefusedRunError(
                    f"the job variable '{name}' is set.",
                    "Remove it from the run, its deployment and its pool.",
                )
        unknown = sorted(asked.env.keys() - _installed_variables())
        if unknown:
            raise RefusedRunError(
                f"the environment variable '{unknown[0]}' is set for the run.",
                "Set it where the worker starts, or in its prefect.yaml.",
            )
        return asked

    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: APIFlow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Fill in what depends on the flow run."""
        super().prepare_for_flow_run(
            flow_run, deployment, flow, work_pool, worker_name, worker_id=worker_id
        )
        # -P: files in the working folder are not importable.
        self.command = command_to_string([sys.executable, "-P", "-m", PROCESS])


class _Runner(Runner):
    """Starts and watches the processes of flow runs.

    Prefect loads a flow in the worker's own process to run its hooks, with pull steps and entrypoint from the server. Our
    flows have no hooks.
    """

    def __init__(self) -> None:
        super().__init__(pause_on_shutdown=False, limit=None)
        # By default a folder in /tmp that the first user on the machine creates for all.
        self._tmp_dir = self.folder = Path(tempfile.mkdtemp(prefix="regrade-worker-"))

    async def return_runs(self, starting: Collection[UUID]) -> None:
        """End the processes of all runs, also of those that are starting, and return the runs to the server."""
        self._rescheduling = True  # a process that fails now has not crashed
        await return_runs(self._client, self._flow_run_process_map, starting)

    async def _run_on_cancellation_hooks(self, flow_run: FlowRun, state: State) -> None:
        pass

    async def _run_on_crashed_hooks(self, flow_run: FlowRun, state: State) -> None:
        pass


class ProjectWorker(ProcessWorker):
    """The worker; see the module."""

    job_configuration = ProjectJob
    once = False
    """The worker ends with the runs that are scheduled now, so that none of them makes room for another."""
    stopping = False
    """The worker starts no further runs."""

    @classmethod
    def __dispatch_key__(cls) -> str:
        """Key in Prefect's registry; the key of the parent class would replace it there."""
        return "regrade-process"

    async def __aenter__(self) -> Self:
        """Connect to the server."""
        await BaseWorker.__aenter__(self)
        self._runner = await self._exit_stack.enter_async_context(_Runner())
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
        """Start runs; those that use a server elsewhere do not wait for the engine of this machine."""
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
            runner: _Runner | None = getattr(self, "_runner", None)  # None while it connects
            if runner is not None:
                await runner.return_runs(self._submitting_flow_run_ids)
            _end_soon()
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working

    async def _propose_crashed_state(
        self, flow_run: FlowRun, message: str, client: "PrefectClient | None" = None
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


def installed_entrypoint(deployment: DeploymentResponse | None) -> str:
    """Return the entrypoint of a deployment.

    Raises:
        RefusedRunError: If neither `regrade deploy` of this version nor one like it created the deployment's code.
    """
    if deployment is None:
        raise RefusedRunError("the run has no deployment.", "Start a deployment instead.")
    project = _project()
    advice = (
        "`regrade deploy` restores regrade's deployments; other flows need a pool and a worker of their own "
        "(`prefect worker start`)."
    )
    entrypoint = deployment.entrypoint
    if entrypoint not in {entry["entrypoint"] for entry in project["deployments"]}:
        problem = f"the deployment '{deployment.name}' has the entrypoint '{entrypoint}'."
        raise RefusedRunError(problem, advice)
    if deployment.pull_steps != project["pull"]:
        problem = f"the deployment '{deployment.name}' has other pull steps."
        raise RefusedRunError(problem, advice)
    return str(entrypoint)


def _refuse_references(*settings: object) -> None:
    """Refuse `{{ $NAME }}`, which Prefect replaces by a variable of the worker: an error message could show it.

    Raises:
        RefusedRunError: If a setting refers to a variable of the worker, or to a block or variable on the server.
    """
    for setting in settings:
        if isinstance(setting, Mapping):
            _refuse_references(*setting, *setting.values())
        elif isinstance(setting, list):
            _refuse_references(*setting)
        elif isinstance(setting, str):
            for placeholder in find_placeholders(setting):
                if placeholder.type is not PlaceholderType.STANDARD:
                    raise RefusedRunError(
                        f"a job variable refers to '{placeholder.full_match}'.",
                        "Write the value itself.",
                    )


def limits(environment: dict[str, str | None]) -> dict[str, str | None]:
    """Return the variables of a flow run with the limits of a worker; those that its machine sets are kept."""
    return {REMOTE_CODE: "0", API_KEYS: "OPENAI_API_KEY", SLOTS_VARIABLE: "1"} | environment


def _installed_variables() -> set[str]:
    """Names of the environment variables that the installed prefect.yaml sets for runs."""
    pools = [entry["work_pool"] for entry in _project()["deployments"]]
    return {name for pool in pools for name in pool.get("job_variables", {}).get("env", {})}


def _project() -> dict[str, Any]:
    project: dict[str, Any] = yaml.safe_load((project_folder() / "prefect.yaml").read_text())
    return project


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
    logging.getLogger("prefect.flow_runs.worker").addFilter(without_traceback)  # of refused runs
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
