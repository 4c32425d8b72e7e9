"""The process of a flow run, which runs only flows of the installed regrade, with their parameters.

Prefect's own worker runs whatever the server names: a deployment's pull steps and entrypoint, a command, a working folder and
environment variables of a flow run or a pool. Whoever can write to the server can then run a shell on every worker. A
`ProjectJob` takes from the server only which of the installed flows to run, with which parameters.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast
from uuid import UUID

import yaml
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import Flow as APIFlow
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect.utilities.processutils import command_to_string
from prefect.utilities.templating import PlaceholderType, find_placeholders
from prefect.workers.process import ProcessJobConfiguration

from regrade.engines.vllm_process.slot import SLOTS_VARIABLE
from regrade.models.served import API_KEYS
from regrade.settings.errors import OperationError
from regrade.settings.files import at_home, spool_root
from regrade.settings.project_folder import is_checkout, make_flows_importable, project_folder
from regrade.settings.worker_limits import FOLDERS, REMOTE_CODE

ENTRYPOINT = "PREFECT__FLOW_ENTRYPOINT"
"""Variable with which Prefect's engine loads a flow without asking the server for the deployment's code."""
PROCESS = "regrade.orchestration.flow_run_process"


class RefusedRunError(OperationError):
    """The server names code or settings other than those of the installed regrade."""

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
        client: PrefectClient,
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
        client: PrefectClient | None = None,
    ) -> Self:
        """Return the configuration by pool, deployment and flow run.

        Raises:
            RefusedRunError: If they set another command, working folder or environment variable.
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
        """Fill in the parts that depend on the flow run."""
        super().prepare_for_flow_run(
            flow_run, deployment, flow, work_pool, worker_name, worker_id=worker_id
        )
        # -P: files in the working folder are not importable.
        self.command = command_to_string([sys.executable, "-P", "-m", PROCESS])


def installed_entrypoint(deployment: DeploymentResponse | None) -> str:
    """Return the entrypoint of a deployment.

    Raises:
        RefusedRunError: If the deployment's code is not that of `regrade deploy` of a like version.
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
    """Return the variables of a flow run with the limits of a worker, unless its machine sets them."""
    own = {REMOTE_CODE: "0", API_KEYS: "OPENAI_API_KEY", SLOTS_VARIABLE: "1", FOLDERS: _folders()}
    return {**own, **environment}


def _folders() -> str:
    """Folders that runs may name if the owner of the worker names none: models, data and answers of its home, and our demo."""
    home = _home()
    folders = [str(home / name) for name in ("models", "data", "answers")]
    folders += [str(project_folder() / "infra" / "demo")] if is_checkout() else []
    answers = os.environ.get("REGRADE_ANSWERS", "")
    if answers and "://" not in answers:
        folders.append(str((home / at_home(answers)).resolve()))
    return os.pathsep.join(folders)


def _home() -> Path:
    """Working folder of flow runs."""
    if configured := os.environ.get("REGRADE_HOME"):
        return Path(configured)
    return project_folder() if is_checkout() else spool_root().parent


def _installed_variables() -> set[str]:
    """Names of the environment variables that the installed prefect.yaml sets for runs."""
    pools = [entry["work_pool"] for entry in _project()["deployments"]]
    return {name for pool in pools for name in pool.get("job_variables", {}).get("env", {})}


def _project() -> dict[str, Any]:
    project: dict[str, Any] = yaml.safe_load((project_folder() / "prefect.yaml").read_text())
    return project


# The pull step in prefect.yaml, which a worker runs before it imports a flow.


def use_installed_project() -> dict[str, str]:
    """Make the flows of the regrade on this machine importable, and change to the working folder.

    Runs on the worker, so that a deployment contains no path of the machine that deployed it. Prefect imports flows with
    module-path entrypoints from `sys.path`, not from the working folder.

    Relative paths in a run's parameters are relative to the working folder: `REGRADE_HOME`, else the checkout. An
    installed package uses the folder that holds spool and logs, because nothing should be written into site-packages.

    Returns:
        The working folder, as `directory`.
    """
    make_flows_importable()
    home = _home()
    if not (os.environ.get("REGRADE_HOME") or is_checkout()):
        home.mkdir(parents=True, exist_ok=True)
    os.chdir(home)
    return {"directory": str(Path.cwd())}
