"""Read the deployments in prefect.yaml, with their settings as Prefect's API has them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.events import DeploymentTriggerTypes
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.templating import apply_values
from pydantic import TypeAdapter

from regrade.orchestration.form import form_schema
from regrade.settings.errors import SettingsError

_TRIGGER: TypeAdapter[DeploymentTriggerTypes] = TypeAdapter(DeploymentTriggerTypes)


@dataclass(frozen=True)
class DesiredDeployment:
    """A deployment of prefect.yaml."""

    name: str
    flow: Flow[..., Any]
    settings: dict[str, Any]
    """Fields of Prefect's API; changed by hand on the server, they stop `regrade deploy`."""
    code: dict[str, Any]
    """Fields of Prefect's API that follow from the code."""
    parameters: dict[str, Any]
    """Default parameters of a new deployment; afterwards they are a person's."""
    schedules: dict[str, dict[str, Any]]
    """Schedules by slug; `active` is that of a new schedule, and a person's afterwards."""
    triggers: dict[str, DeploymentTriggerTypes]

    @property
    def path(self) -> str:
        """Full name in Prefect: `flow/deployment`."""
        return f"{self.flow.name}/{self.name}"

    @property
    def pool(self) -> str:
        """Name of the work pool."""
        return str(self.settings["work_pool_name"])


def read_desired(file: Path) -> list[DesiredDeployment]:
    """Return the deployments in a prefect.yaml; `{{ $NAME }}` is replaced by the environment variable.

    Raises:
        SettingsError: If a deployment has a setting that `regrade deploy` does not support.
    """
    document = yaml.safe_load(file.read_text())
    pull = _filled(document.get("pull") or [])
    return [_desired(entry, pull) for entry in document["deployments"]]


def _desired(entry: dict[str, Any], pull: list[dict[str, Any]]) -> DesiredDeployment:
    known = {"name", "description", "version", "tags", "entrypoint", "parameters", "schedules"}
    known |= {"concurrency_limit", "triggers", "work_pool", "enforce_parameter_schema"}
    _refuse_unknown(entry["name"], entry, known)
    triggers = {spec["name"]: _TRIGGER.validate_python(spec) for spec in entry.pop("triggers", [])}
    entry = _filled(entry)
    flow: Flow[..., Any] = load_flow_from_entrypoint(
        entry["entrypoint"], use_placeholder_flow=False
    )
    limit = entry.get("concurrency_limit")
    limits: Mapping[str, Any] = limit if isinstance(limit, dict) else {"limit": limit}
    pool = entry["work_pool"]
    options = {"collision_strategy", "grace_period_seconds"}
    _refuse_unknown(entry["name"], limits, {"limit", *options})
    _refuse_unknown(entry["name"], pool, {"name", "job_variables", "work_queue_name"})
    settings = {
        "description": entry.get("description") or flow.description,
        "tags": sorted(entry.get("tags") or []),
        "work_pool_name": pool["name"],
        "work_queue_name": pool.get("work_queue_name", "default"),
        "concurrency_limit": limits["limit"],
        "job_variables": pool.get("job_variables") or {},
    }
    if limits["limit"]:
        chosen = {name: limits[name] for name in options & limits.keys()}
        settings["concurrency_options"] = {"collision_strategy": "ENQUEUE"} | chosen
    code = {
        "version": entry.get("version") or flow.version,
        "entrypoint": entry["entrypoint"],
        "pull_steps": pull,
        "parameter_openapi_schema": form_schema(flow),
        "enforce_parameter_schema": entry.get("enforce_parameter_schema", True),
    }
    schedules = {spec["slug"]: _schedule(spec) for spec in entry.get("schedules") or []}
    parameters = entry.get("parameters") or {}
    return DesiredDeployment(entry["name"], flow, settings, code, parameters, schedules, triggers)


def _schedule(spec: dict[str, Any]) -> dict[str, Any]:
    options = {key: spec[key] for key in ("timezone", "day_or") if key in spec}
    if "cron" in spec:
        schedule: CronSchedule | IntervalSchedule = CronSchedule(cron=spec["cron"], **options)
    elif "interval" in spec:
        schedule = IntervalSchedule(interval=spec["interval"], **options)
    else:
        raise SettingsError(
            f"prefect.yaml: schedule '{spec['slug']}' has neither `cron` nor `interval`."
        )
    return {
        "schedule": schedule.model_dump(mode="json"),
        "active": spec.get("active", True),
        "parameters": spec.get("parameters") or {},
    }


def _refuse_unknown(deployment: str, entry: Mapping[str, Any], known: set[str]) -> None:
    if unknown := set(entry) - known:
        raise SettingsError(
            f"prefect.yaml: '{deployment}' has {sorted(unknown)}, which is not deployed. Known: {sorted(known)}."
        )


def _filled(values: Any) -> Any:  # noqa: ANN401 - any YAML
    return apply_values(values, dict(os.environ), remove_notset=False)
