"""The deployments in prefect.yaml, as Prefect's API names their settings."""

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

from regrade.errors import SettingsError

_TRIGGER: TypeAdapter[DeploymentTriggerTypes] = TypeAdapter(DeploymentTriggerTypes)


@dataclass(frozen=True)
class DesiredDeployment:
    """A deployment: `settings` may be changed by people in the UI, `code` follows from the code."""

    name: str
    flow: Flow[..., Any]
    settings: dict[str, Any]
    code: dict[str, Any]
    triggers: dict[str, DeploymentTriggerTypes]

    @property
    def path(self) -> str:
        """Flow and deployment, as Prefect names it."""
        return f"{self.flow.name}/{self.name}"

    @property
    def pool(self) -> str:
        """Name of the work pool."""
        return str(self.settings["work pool"])


def read_desired(file: Path) -> list[DesiredDeployment]:
    """Return the deployments of a prefect.yaml; `{{ $NAME }}` is replaced by the environment variable.

    Raises:
        SettingsError: If a deployment has a setting that is not deployed.
    """
    document = yaml.safe_load(file.read_text())
    pull = _filled(document.get("pull") or [])
    return [_desired(one, pull) for one in document["deployments"]]


def flat_settings(deployment: dict[str, Any]) -> dict[str, Any]:
    """Return what people may change in the UI, one entry for each setting."""
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
        **{
            f"parameters.{key}": value
            for key, value in (deployment.get("parameters") or {}).items()
        },
        **{f"job_variables.{key}": value for key, value in variables.items()},
        **{f"job_variables.env.{key}": value for key, value in environment.items()},
    }
    return {key: value for key, value in flat.items() if value is not None}


def _desired(one: dict[str, Any], pull: list[dict[str, Any]]) -> DesiredDeployment:
    known = {"name", "description", "version", "tags", "entrypoint", "parameters", "schedules"}
    known |= {"concurrency_limit", "triggers", "work_pool", "enforce_parameter_schema"}
    _known(one["name"], one, known)
    triggers = {spec["name"]: _TRIGGER.validate_python(spec) for spec in one.pop("triggers", [])}
    one = _filled(one)
    flow: Flow[..., Any] = load_flow_from_entrypoint(one["entrypoint"], use_placeholder_flow=False)
    limit = one.get("concurrency_limit")
    limits = limit if isinstance(limit, dict) else {"limit": limit}
    pool = one["work_pool"]
    _known(one["name"], limits, {"limit", "collision_strategy", "grace_period_seconds"})
    _known(one["name"], pool, {"name", "job_variables", "work_queue_name"})
    settings = flat_settings(
        {
            "description": one.get("description") or flow.description,
            "tags": one.get("tags"),
            "work_pool_name": pool["name"],
            "work_queue_name": pool.get("work_queue_name", "default"),
            "concurrency_limit": limits["limit"],
            "collision_strategy": limits.get("collision_strategy", "ENQUEUE"),
            "grace_period_seconds": limits.get("grace_period_seconds"),
            "parameters": one.get("parameters"),
            "job_variables": pool.get("job_variables"),
        }
    )
    for spec in one.get("schedules") or []:
        settings[f"schedule {spec['slug']}"] = _schedule(spec)
    code = {
        "version": one.get("version") or flow.version,
        "entrypoint": one["entrypoint"],
        "pull_steps": pull,
        "parameter_openapi_schema": parameter_schema(flow).model_dump_for_openapi(),
        "enforce_parameter_schema": one.get("enforce_parameter_schema", True),
    }
    return DesiredDeployment(one["name"], flow, settings, code, triggers)


def _schedule(spec: dict[str, Any]) -> dict[str, Any]:
    rest = {key: spec[key] for key in ("timezone", "day_or") if key in spec}
    if "cron" in spec:
        schedule: CronSchedule | IntervalSchedule = CronSchedule(cron=spec["cron"], **rest)
    elif "interval" in spec:
        schedule = IntervalSchedule(interval=spec["interval"], **rest)
    else:
        raise SettingsError(
            f"prefect.yaml: schedule '{spec['slug']}' has neither `cron` nor `interval`."
        )
    return {
        "schedule": schedule.model_dump(mode="json"),
        "active": spec.get("active", True),
        "parameters": spec.get("parameters") or {},
    }


def _known(deployment: str, given: dict[str, Any], known: set[str]) -> None:
    """Refuse keys that would be ignored."""
    if unknown := set(given) - known:
        raise SettingsError(
            f"prefect.yaml: '{deployment}' has {sorted(unknown)}, which is not deployed."
        )


def _filled(values: Any) -> Any:  # noqa: ANN401 - any YAML
    return apply_values(values, dict(os.environ), remove_notset=False)
