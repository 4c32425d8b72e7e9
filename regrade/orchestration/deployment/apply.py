"""Apply prefect.yaml to a Prefect server; settings changed by hand on the server are kept."""

from collections.abc import Mapping
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
from regrade.orchestration.deployment.three_way_merge import Merged, Outcome, State, merge

SCHEDULE, TRIGGER = "schedule ", "trigger "


def create_pool(client: SyncPrefectClient, name: str, limit: int | None) -> Outcome:
    """Create a work pool of the type `process`, unless a pool of this name exists.

    Args:
        client: Client of the server.
        name: Name of the pool.
        limit: Most concurrent flow runs of the pool. None: no limit.
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
        notes.append(f"Its type is '{pool.type}', a new pool gets 'process'.")
    if pool.concurrency_limit != limit:
        notes.append(
            f"Its limit is {pool.concurrency_limit}, a new pool gets {limit} "
            f"(`prefect work-pool set-concurrency-limit {name} {limit}`)."
        )
    return Outcome("pool", name, "unchanged", " ".join(notes))


def apply_deployment(
    client: SyncPrefectClient, desired: DesiredDeployment, *, force: bool
) -> Outcome:
    """Create or update a deployment with its schedules and triggers."""
    try:
        existing: DeploymentResponse | None = client.read_deployment_by_name(desired.path)
    except ObjectNotFound:
        existing = None
    automations: dict[str, Automation] = {}
    server: dict[str, Any] = {}
    memory = f"regrade_deployed_{desired.name.replace('-', '_')}"
    # A deployment that was deleted on the server is created with all its settings.
    deployed = (recall(client, memory) or {}) if existing is not None else {}
    if existing is not None:
        names = {*_below(deployed, TRIGGER), *desired.triggers}
        automations = _automations(client, existing.id, names)
        server = _settings(existing) | _trigger_settings(automations)
        deployment_id = existing.id
    else:
        deployment_id = client.create_deployment(
            flow_id=client.create_flow_from_name(desired.flow.name),
            name=desired.name,
            work_pool_name=desired.pool,
            **desired.code,
        )
    for trigger in desired.triggers.values():
        trigger.set_deployment_id(deployment_id)
    triggers = {name: trigger.as_automation() for name, trigger in desired.triggers.items()}
    merged = merge(desired.settings | _trigger_settings(triggers), server, deployed, force=force)
    _update(client, deployment_id, desired, merged)
    _update_schedules(client, deployment_id, existing, merged)
    _update_triggers(client, automations, triggers, merged)
    remember(client, memory, merged.remember)
    if existing is None:
        return Outcome("deployment", desired.path, "created")
    state: State = "updated" if merged.changed else "unchanged"
    return Outcome("deployment", desired.path, state, changed=merged.changed, kept=merged.kept)


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


def _settings(existing: DeploymentResponse) -> dict[str, Any]:
    limit = existing.global_concurrency_limit
    options = existing.concurrency_options
    settings = flat_settings(
        existing.model_dump(mode="json")
        | {
            "concurrency_limit": limit.limit if limit else None,
            "collision_strategy": options.collision_strategy.value if options else "ENQUEUE",
            "grace_period_seconds": options.grace_period_seconds if options else None,
        }
    )
    for schedule in existing.schedules:
        settings[SCHEDULE + (schedule.slug or str(schedule.id))] = {
            "schedule": schedule.schedule.model_dump(mode="json"),
            "active": schedule.active,
            "parameters": schedule.parameters,
        }
    return settings


def _update(
    client: SyncPrefectClient, deployment_id: UUID, desired: DesiredDeployment, merged: Merged
) -> None:
    """Send the changed settings, and all that follows from the code."""
    result = merged.result
    limit = result.get("concurrency limit")
    job = _below(result, "job_variables.")
    variables = {name: value for name, value in job.items() if not name.startswith("env.")}
    if environment := _below(job, "env."):
        variables["env"] = environment
    values = {
        "description": result.get("description"),
        "tags": result.get("tags", []),
        "parameters": _below(result, "parameters."),
        "job_variables": variables,
    }
    changed = {name.partition(".")[0] for name in merged.changed}
    update = desired.code | {name: value for name, value in values.items() if name in changed}
    if "concurrency limit" in changed:
        update["concurrency_limit"] = limit
    if changed & {"work pool", "work queue"}:
        update |= {"work_pool_name": result["work pool"], "work_queue_name": result["work queue"]}
    if limit and changed & {"concurrency limit", "collision strategy", "grace period"}:
        options = {"collision_strategy": result.get("collision strategy", "ENQUEUE")}
        if "grace period" in result:
            options["grace_period_seconds"] = result["grace period"]
        update["concurrency_options"] = ConcurrencyOptions.model_validate(options)
    client.update_deployment(deployment_id, DeploymentUpdate(**update))


def _update_schedules(
    client: SyncPrefectClient,
    deployment_id: UUID,
    existing: DeploymentResponse | None,
    merged: Merged,
) -> None:
    schedules = existing.schedules if existing else []
    ids = {schedule.slug or str(schedule.id): schedule.id for schedule in schedules}
    for slug, schedule in merged.changes(SCHEDULE):
        if slug in ids:
            client.delete_deployment_schedule(deployment_id, ids[slug])
        if schedule is not None:
            new = DeploymentScheduleCreate.model_validate(schedule | {"slug": slug})
            client.create_deployment_schedules(deployment_id, [new])


def _update_triggers(
    client: SyncPrefectClient,
    existing: dict[str, Automation],
    desired: dict[str, AutomationCore],
    merged: Merged,
) -> None:
    for name, trigger in merged.changes(TRIGGER):
        if name in existing:
            client.delete_automation(existing[name].id)
        if trigger is not None:
            client.create_automation(desired[name])


def _automations(
    client: SyncPrefectClient, deployment_id: UUID, names: set[str]
) -> dict[str, Automation]:
    """Return the triggers of a deployment with these names; others were made by hand."""
    response = client.request(
        "GET",
        "/automations/related-to/{resource_id}",
        path_params={"resource_id": f"prefect.deployment.{deployment_id}"},
    )
    automations = map(Automation.model_validate, response.json())
    return {automation.name: automation for automation in automations if automation.name in names}


def _trigger_settings(automations: Mapping[str, AutomationCore]) -> dict[str, Any]:
    fields = {"enabled", "description", "trigger", "actions"}
    return {
        TRIGGER + name: automation.model_dump(mode="json", include=fields)
        for name, automation in automations.items()
    }


def _below(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {
        key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)
    }
