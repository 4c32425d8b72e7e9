"""Read the deployments in prefect.yaml, with their settings as Prefect's API has them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.events import DeploymentTriggerTypes
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from prefect.utilities.templating import apply_values
from pydantic import TypeAdapter

from regrade.settings.errors import SettingsError

_TRIGGER: TypeAdapter[DeploymentTriggerTypes] = TypeAdapter(DeploymentTriggerTypes)


@dataclass(frozen=True)
class DesiredDeployment:
    """A deployment: `settings` can be changed by hand in the UI, `code` follows from the code."""

    name: str
    flow: Flow[..., Any]
    settings: dict[str, Any]
    code: dict[str, Any]
    triggers: dict[str, DeploymentTriggerTypes]

    @property
    def path(self) -> str:
        """Full name in Prefect: `flow/deployment`."""
        return f"{self.flow.name}/{self.name}"

    @property
    def pool(self) -> str:
        """Name of the work pool."""
        return str(self.settings["work pool"])


def read_desired(file: Path) -> list[DesiredDeployment]:
    """Return the deployments in a prefect.yaml; `{{ $NAME }}` is replaced by the environment variable.

    Raises:
        SettingsError: If a deployment has a setting that `regrade deploy` does not support.
    """
    document = yaml.safe_load(file.read_text())
    pull = _filled(document.get("pull") or [])
    return [_desired(entry, pull) for entry in document["deployments"]]


def flat_settings(deployment: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that can be changed by hand in the UI, without nesting."""
    limit = deployment.get("concurrency_limit")
    variables = dict(deployment.get("job_variables") or {})
    environment = variables.pop("env", None) or {}
    flat = {
        "description": deployment.get("description"),
        "tags": sorted(deployment.get("tags") or []),
        "work pool": deployment.get("work_pool_name"),
        "concurrency limit": limit,
        "work queue": deployment.get("work_queue_name"),
        "collision strategy": deployment.get("collision_strategy") if limit else None,
        "grace period": deployment.get("grace_period_seconds") if limit else None,
    }
    for prefix, group in (
        ("parameters.", deployment.get("parameters") or {}),
        ("job_variables.", variables),
        ("job_variables.env.", environment),
    ):
        flat |= {prefix + key: value for key, value in group.items()}
    return {key: value for key, value in flat.items() if value is not None}


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
    limits = limit if isinstance(limit, dict) else {"limit": limit}
    pool = entry["work_pool"]
    _refuse_unknown(entry["name"], limits, {"limit", "collision_strategy", "grace_period_seconds"})
    _refuse_unknown(entry["name"], pool, {"name", "job_variables", "work_queue_name"})
    settings = flat_settings(
        {
            "description": entry.get("description") or flow.description,
            "tags": entry.get("tags"),
            "work_pool_name": pool["name"],
            "work_queue_name": pool.get("work_queue_name", "default"),
            "concurrency_limit": limits["limit"],
            "collision_strategy": limits.get("collision_strategy", "ENQUEUE"),
            "grace_period_seconds": limits.get("grace_period_seconds"),
            "parameters": entry.get("parameters"),
            "job_variables": pool.get("job_variables"),
        }
    )
    for spec in entry.get("schedules") or []:
        settings[f"schedule {spec['slug']}"] = _schedule(spec)
    code = {
        "version": entry.get("version") or flow.version,
        "entrypoint": entry["entrypoint"],
        "pull_steps": pull,
        "parameter_openapi_schema": parameter_schema(flow).model_dump_for_openapi(),
        "enforce_parameter_schema": entry.get("enforce_parameter_schema", True),
    }
    return DesiredDeployment(entry["name"], flow, settings, code, triggers)


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


def _refuse_unknown(deployment: str, entry: dict[str, Any], known: set[str]) -> None:
    if unknown := set(entry) - known:
        raise SettingsError(
            f"prefect.yaml: '{deployment}' has {sorted(unknown)}, which is not deployed. Known: {sorted(known)}."
        )


def _filled(values: Any) -> Any:  # noqa: ANN401 - any YAML
    return apply_values(values, dict(os.environ), remove_notset=False)
