"""Update a Prefect server to what prefect.yaml says; what a person changed there stays."""

from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    DeploymentUpdate,
    VariableCreate,
    VariableUpdate,
    WorkPoolCreate,
)
from prefect.client.schemas.objects import ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker

from regrade.orchestration.deployment.desired import DesiredDeployment, flat_settings
from regrade.orchestration.deployment.outcome import Kept, Outcome, State
from regrade.orchestration.deployment.three_way_merge import Merged, merge

SCHEDULE, TRIGGER = "schedule ", "trigger "


def create_pool(client: SyncPrefectClient, name: str, limit: int | None) -> Outcome:
    """Create a work pool of the type `process`, unless a pool of this name exists, of whatever type.

    Args:
        client: Client of the server.
        name: Name of the pool.
        limit: Concurrent flow runs of the pool; more wait. None: no limit.
    """
    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(
                name=name,
                type="process",
                base_job_template=template,
                concurrency_limit=limit,
            )
        )
        return Outcome("pool", name, "created", f"Concurrent flow runs: {limit}." if limit else "")
    notes = []
    if pool.type != "process":
        notes.append(f"Its type is '{pool.type}', a new one gets 'process'.")
    if pool.concurrency_limit != limit:
        notes.append(f"Its limit is {pool.concurrency_limit}, a new one gets {limit}.")
    return Outcome("pool", name, "unchanged", " ".join(notes))


def apply_deployment(
    client: SyncPrefectClient, desired: DesiredDeployment, *, force: bool
) -> Outcome:
    """Create or update one deployment with its schedules and triggers."""
    try:
        existing: DeploymentResponse | None = client.read_deployment_by_name(desired.path)
    except ObjectNotFound:
        existing = None
    automations: dict[str, Automation] = {}
    has: dict[str, Any] = {}
    memory = f"regrade_deployed_{desired.name.replace('-', '_')}"
    deployed = recall(client, memory) or {}
    if existing is not None:
        ours = {name.removeprefix(TRIGGER) for name in deployed if name.startswith(TRIGGER)}
        automations = _automations(client, existing.id, {*ours, *desired.triggers})
        has = _settings(existing)
        has |= {TRIGGER + name: _core(found) for name, found in automations.items()}
    deployment_id = existing.id if existing else _create(client, desired)
    cores = {
        name: _as_automation(trigger, deployment_id) for name, trigger in desired.triggers.items()
    }
    wants = desired.settings | {TRIGGER + name: _core(core) for name, core in cores.items()}
    merged = merge(wants, has, deployed, force=force)
    _update(client, deployment_id, desired, merged)
    _update_schedules(client, deployment_id, existing, merged)
    _update_triggers(client, automations, cores, merged)
    remember(client, memory, merged.remember)
    kept = {name: Kept(server, project) for name, (server, project) in merged.kept.items()}
    if existing is None:
        return Outcome("deployment", desired.path, "created")
    state: State = "updated" if merged.changed else "unchanged"
    return Outcome("deployment", desired.path, state, changed=merged.changed, kept=kept)


def recall(client: SyncPrefectClient, name: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of a Prefect variable on the server, or None."""
    variable = client.read_variable_by_name(name)
    return variable.value if variable else None


def remember(client: SyncPrefectClient, name: str, value: Any) -> None:  # noqa: ANN401 - any JSON
    """Store a value on the server as a Prefect variable."""
    if client.read_variable_by_name(name) is None:
        client.create_variable(VariableCreate(name=name, value=value, tags=["regrade"]))
    else:
        client.update_variable(VariableUpdate(name=name, value=value, tags=["regrade"]))


def _create(client: SyncPrefectClient, desired: DesiredDeployment) -> UUID:
    return client.create_deployment(
        flow_id=client.create_flow_from_name(desired.flow.name),
        name=desired.name,
        work_pool_name=desired.settings["work pool"],
        **desired.code,
    )


def _settings(existing: DeploymentResponse) -> dict[str, Any]:
    limit = existing.global_concurrency_limit
    options = existing.concurrency_options
    found = flat_settings(
        existing.model_dump(mode="json")
        | {
            "concurrency_limit": limit.limit if limit else None,
            "collision_strategy": options.collision_strategy.value if options else "ENQUEUE",
            "grace_period_seconds": options.grace_period_seconds if options else None,
        }
    )
    for schedule in existing.schedules:
        found[SCHEDULE + (schedule.slug or str(schedule.id))] = {
            "schedule": schedule.schedule.model_dump(mode="json"),
            "active": schedule.active,
            "parameters": schedule.parameters,
        }
    return found


def _update(
    client: SyncPrefectClient, deployment_id: UUID, desired: DesiredDeployment, merged: Merged
) -> None:
    result = merged.result
    limit = result.get("concurrency limit")
    new: dict[str, Any] = dict(desired.code)
    variables = _below(result, "job_variables.", besides="job_variables.env.")
    if environment := _below(result, "job_variables.env."):
        variables["env"] = environment
    values = {
        "description": result.get("description"),
        "tags": result.get("tags", []),
        "parameters": _below(result, "parameters."),
        "job_variables": variables,
        "concurrency limit": limit,
    }
    changed = set(merged.changed)
    names = {"concurrency limit": "concurrency_limit"}
    for name, value in values.items():  # what is not changed is not even sent
        if any(one == name or one.startswith(f"{name}.") for one in changed):
            new[names.get(name, name)] = value
    if changed & {"work pool", "work queue"}:
        new["work_pool_name"], new["work_queue_name"] = result["work pool"], result["work queue"]
    if limit and changed & {"concurrency limit", "collision strategy", "grace period"}:
        given = {"collision_strategy": result.get("collision strategy", "ENQUEUE")}
        if "grace period" in result:
            given["grace_period_seconds"] = result["grace period"]
        new["concurrency_options"] = ConcurrencyOptions.model_validate(given)
    client.update_deployment(deployment_id, DeploymentUpdate(**new))


def _update_schedules(
    client: SyncPrefectClient,
    deployment_id: UUID,
    existing: DeploymentResponse | None,
    merged: Merged,
) -> None:
    ids = {one.slug or str(one.id): one.id for one in (existing.schedules if existing else [])}
    for name in merged.changed:
        slug = name.removeprefix(SCHEDULE)
        if slug == name:
            continue
        if slug in ids:
            client.delete_deployment_schedule(deployment_id, ids[slug])
        if name in merged.result:
            new = DeploymentScheduleCreate.model_validate(merged.result[name] | {"slug": slug})
            client.create_deployment_schedules(deployment_id, [new])


def _update_triggers(
    client: SyncPrefectClient,
    existing: dict[str, Automation],
    desired: dict[str, AutomationCore],
    merged: Merged,
) -> None:
    for name in merged.changed:
        trigger = name.removeprefix(TRIGGER)
        if trigger == name:
            continue
        if trigger in existing:
            client.delete_automation(existing[trigger].id)
        if name in merged.result:
            client.create_automation(desired[trigger])


def _automations(
    client: SyncPrefectClient, deployment_id: UUID, names: set[str]
) -> dict[str, Automation]:
    """Return those triggers of a deployment that came from prefect.yaml."""
    response = client.request(
        "GET",
        "/automations/related-to/{resource_id}",
        path_params={"resource_id": f"prefect.deployment.{deployment_id}"},
    )
    found = [Automation.model_validate(one) for one in response.json()]
    return {one.name: one for one in found if one.name in names}


def _as_automation(trigger: Any, deployment_id: UUID) -> AutomationCore:  # noqa: ANN401 - a union
    trigger.set_deployment_id(deployment_id)
    core: AutomationCore = trigger.as_automation()
    return core


def _core(automation: AutomationCore) -> dict[str, Any]:
    fields = automation.model_dump(mode="json")
    return {key: fields[key] for key in ("enabled", "description", "trigger", "actions")}


def _below(values: dict[str, Any], prefix: str, besides: str = "\0") -> dict[str, Any]:
    return {
        key.removeprefix(prefix): value
        for key, value in values.items()
        if key.startswith(prefix) and not key.startswith(besides)
    }
