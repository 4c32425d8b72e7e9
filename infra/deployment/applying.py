"""From what prefect.yaml wants to what the server has, without taking anything from a person."""

import json
from collections.abc import Callable
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

from infra.deployment.merging import Merged, merge
from infra.deployment.wanted import Wanted, flat_settings

SCHEDULE, TRIGGER = "schedule ", "trigger "
Say = Callable[[str], None]


def make_pool(client: SyncPrefectClient, name: str, limit: int | None, say: Say) -> None:
    """Make a pool of processes, unless there is a pool of this name, of whatever type.

    Args:
        client: Of the server.
        name: Of the pool.
        limit: Flow runs of the pool at a time, whatever their deployment; more wait.
        say: Told what was done.
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
        say(f"pool {name}: made" + (f", {limit} flow run at a time" if limit else ""))
        return
    kind = "" if pool.type == "process" else f" It is of the type '{pool.type}', not 'process'."
    if pool.concurrency_limit != limit:
        kind += f" Its limit is {pool.concurrency_limit}, where a new one has {limit}."
    say(f"pool {name}: is there, left as it is.{kind}")


def deploy(client: SyncPrefectClient, wanted: Wanted, say: Say, *, force: bool) -> Merged:
    """Make or update one deployment, and say what of it a person changed and is left alone."""
    try:
        there: DeploymentResponse | None = client.read_deployment_by_name(wanted.path)
    except ObjectNotFound:
        there = None
    automations: dict[str, Automation] = {}
    has: dict[str, Any] = {}
    memory = f"regrade_deployed_{wanted.name.replace('-', '_')}"
    deployed = recall(client, memory) or {}
    if there is not None:
        ours = {name.removeprefix(TRIGGER) for name in deployed if name.startswith(TRIGGER)}
        automations = _automations(client, there.id, {*ours, *wanted.triggers})
        has = _settings(there)
        has |= {TRIGGER + name: _core(one) for name, one in automations.items()}
    deployment_id = there.id if there else _create(client, wanted)
    cores = {name: _as_automation(one, deployment_id) for name, one in wanted.triggers.items()}
    wants = wanted.settings | {TRIGGER + name: _core(one) for name, one in cores.items()}
    merged = merge(wants, has, deployed, force=force)
    _update(client, deployment_id, wanted, merged)
    _update_schedules(client, deployment_id, there, merged)
    _update_triggers(client, automations, cores, merged)
    remember(client, memory, merged.remember)
    made = (
        "made"
        if there is None
        else f"updated {', '.join(merged.changed)}"
        if merged.changed
        else "as it was"
    )
    say(f"deployment {wanted.path}: {made}")
    for name, (value, file) in merged.kept.items():
        say(
            f"deployment {wanted.path}: {name} was changed on the server and stays {_short(value)}; "
            f"prefect.yaml says {_short(file)} (FORCE=1 sets it)"
        )
    return merged


def recall(client: SyncPrefectClient, name: str) -> Any:  # noqa: ANN401 - any JSON
    """Return what was remembered under a name on the server; None if nothing."""
    variable = client.read_variable_by_name(name)
    return variable.value if variable else None


def remember(client: SyncPrefectClient, name: str, value: Any) -> None:  # noqa: ANN401 - any JSON
    """Keep something under a name on the server, as a Prefect variable."""
    if client.read_variable_by_name(name) is None:
        client.create_variable(VariableCreate(name=name, value=value, tags=["regrade"]))
    else:
        client.update_variable(VariableUpdate(name=name, value=value, tags=["regrade"]))


def _create(client: SyncPrefectClient, wanted: Wanted) -> UUID:
    return client.create_deployment(
        flow_id=client.create_flow_from_name(wanted.flow.name),
        name=wanted.name,
        work_pool_name=wanted.settings["work pool"],
        **wanted.code,
    )


def _settings(there: DeploymentResponse) -> dict[str, Any]:
    limit = there.global_concurrency_limit
    options = there.concurrency_options
    found = flat_settings(
        there.model_dump(mode="json")
        | {
            "concurrency_limit": limit.limit if limit else None,
            "collision_strategy": options.collision_strategy.value if options else "ENQUEUE",
            "grace_period_seconds": options.grace_period_seconds if options else None,
        }
    )
    for one in there.schedules:
        found[SCHEDULE + (one.slug or str(one.id))] = {
            "schedule": one.schedule.model_dump(mode="json"),
            "active": one.active,
            "parameters": one.parameters,
        }
    return found


def _update(client: SyncPrefectClient, deployment_id: UUID, wanted: Wanted, merged: Merged) -> None:
    result = merged.result
    limit = result.get("concurrency limit")
    new: dict[str, Any] = dict(wanted.code)
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
    client: SyncPrefectClient, deployment_id: UUID, there: DeploymentResponse | None, merged: Merged
) -> None:
    ids = {one.slug or str(one.id): one.id for one in (there.schedules if there else [])}
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
    there: dict[str, Automation],
    wanted: dict[str, AutomationCore],
    merged: Merged,
) -> None:
    for name in merged.changed:
        trigger = name.removeprefix(TRIGGER)
        if trigger == name:
            continue
        if trigger in there:
            client.delete_automation(there[trigger].id)
        if name in merged.result:
            client.create_automation(wanted[trigger])


def _automations(
    client: SyncPrefectClient, deployment_id: UUID, names: set[str]
) -> dict[str, Automation]:
    """Return those triggers of a deployment that came from prefect.yaml; others are nobody's business here."""
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


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]} ..."
