"""Create and update the deployments of prefect.yaml on a Prefect server.

Default parameters, and whether schedules and triggers are on, are set when they are created; afterwards they are a person's.
Other settings that were changed by hand on the server are refused with the difference, unless they may be overwritten.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    DeploymentUpdate,
    VariableCreate,
    VariableUpdate,
)
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectNotFound

from regrade.orchestration.deployment.desired import DesiredDeployment

_TRIGGER = "trigger "


@dataclass(frozen=True)
class Deployed:
    """A work pool, deployment, automation or scorer after `regrade deploy`."""

    kind: Literal["pool", "deployment", "automation", "scorer"]
    name: str
    state: Literal["created", "updated", "unchanged"]
    note: str = ""
    changed: list[str] = field(default_factory=list)
    """Settings that were updated."""

    def line(self) -> str:
        """Line for a terminal."""
        first = f"{self.kind} {self.name}: {self.state} {', '.join(self.changed)}".rstrip()
        return f"{first}. {self.note}" if self.note else first


class Deployment:
    """A deployment of prefect.yaml beside its state on the server."""

    def __init__(self, client: SyncPrefectClient, desired: DesiredDeployment) -> None:
        """Read the deployment on the server, and what the last `regrade deploy` set."""
        self._client, self._desired = client, desired
        self._memory = f"regrade_deployed_{desired.name.replace('-', '_')}"
        self._differing: list[str] = []
        try:
            existing = client.read_deployment_by_name(desired.path)
        except ObjectNotFound:
            self._existing = None
            return
        self._existing = existing
        self._last: dict[str, str] = recall(client, self._memory) or {}
        """Fingerprint of each setting that was deployed last."""
        for trigger in desired.triggers.values():
            trigger.set_deployment_id(existing.id)
        triggers = [trigger.as_automation() for trigger in desired.triggers.values()]
        self._wanted = _comparable(desired.settings, desired.schedules, triggers)
        self._automations = {a.name: a for a in self._own_automations(existing)}
        self._has = self._on_server(existing)
        names = {*self._wanted, *self._has}
        self._differing = sorted(n for n in names if self._wanted.get(n) != self._has.get(n))

    def changed_by_hand(self) -> list[str]:
        """Name each setting on the server that neither prefect.yaml nor the last deployment has, with both values."""
        return [
            f"{self._desired.path}: {name} is {_short(self._has.get(name))}, prefect.yaml has {_short(self._wanted.get(name))}"
            for name in self._differing
            if _fingerprint(self._has.get(name)) != self._last.get(name)
        ]

    def apply(self) -> Deployed:
        """Create or update the deployment with its schedules and triggers."""
        client, desired, existing = self._client, self._desired, self._existing
        if existing is None:
            client.create_deployment(
                flow_id=client.create_flow_from_name(desired.flow.name),
                name=desired.name,
                work_pool_name=desired.pool,
                parameters=desired.parameters,
                **desired.code,
            )
            Deployment(client, desired).apply()
            return Deployed("deployment", desired.path, "created")
        update = DeploymentUpdate.model_validate(desired.code | desired.settings)
        client.update_deployment(existing.id, update)
        schedules = {schedule.slug: schedule for schedule in existing.schedules}
        for kind, _, name in (setting.partition(" ") for setting in self._differing):
            if kind == "schedule":
                values = desired.schedules.get(name)
                if (present := schedules.get(name)) is not None:
                    client.delete_deployment_schedule(existing.id, present.id)
                    values = values and values | {"active": present.active}
                if values is not None:
                    new = DeploymentScheduleCreate.model_validate(values | {"slug": name})
                    client.create_deployment_schedules(existing.id, [new])
            elif kind == "trigger":
                trigger = desired.triggers.get(name)
                automation = None if trigger is None else trigger.as_automation()
                if (known := self._automations.get(name)) is not None:
                    client.delete_automation(known.id)
                    if automation is not None:
                        automation.enabled = known.enabled
                if automation is not None:
                    client.create_automation(automation)
        remember(client, self._memory, {n: _fingerprint(v) for n, v in self._wanted.items()})
        state: Literal["updated", "unchanged"] = "updated" if self._differing else "unchanged"
        return Deployed("deployment", desired.path, state, changed=self._differing)

    def _on_server(self, existing: DeploymentResponse) -> dict[str, Any]:
        """Settings on the server; without schedules that a person added."""
        settings = existing.model_dump(mode="json", include=set(self._desired.settings))
        limit = existing.global_concurrency_limit
        options = existing.concurrency_options
        settings["concurrency_limit"] = limit.limit if limit else None
        settings["concurrency_options"] = (
            options.model_dump(mode="json") if limit and options else None
        )
        schedules = {
            s.slug: s.model_dump(mode="json")
            for s in existing.schedules
            if s.slug and (s.slug in self._desired.schedules or f"schedule {s.slug}" in self._last)
        }
        return _comparable(settings, schedules, self._automations.values())

    def _own_automations(self, existing: DeploymentResponse) -> Iterator[Automation]:
        """Yield the triggers of the deployment that are or were in prefect.yaml; others were made by hand."""
        response = self._client.request(
            "GET",
            "/automations/related-to/{resource_id}",
            path_params={"resource_id": f"prefect.deployment.{existing.id}"},
        )
        for automation in map(Automation.model_validate, response.json()):
            name = automation.name
            if name in self._desired.triggers or _TRIGGER + name in self._last:
                yield automation


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


def _comparable(
    settings: Mapping[str, Any],
    schedules: Mapping[str, Mapping[str, Any]],
    triggers: Iterable[AutomationCore],
) -> dict[str, Any]:
    """Return JSON values by name, such as `job_variables.env.NAME` or `schedule nightly`, without those that are a person's."""
    found = dict(_flat(settings))
    for slug, schedule in schedules.items():
        found[f"schedule {slug}"] = {name: schedule[name] for name in ("schedule", "parameters")}
    for trigger in triggers:
        values = trigger.model_dump(mode="json", include={"description", "trigger", "actions"})
        found[_TRIGGER + trigger.name] = values
    return found


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield prefix + name, sorted(value) if name == "tags" else value


def _fingerprint(value: Any) -> str | None:  # noqa: ANN401 - any JSON
    """Return a short hash of a value, or None for None; a hash stores no second copy of a setting."""
    if value is None:
        return None
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON
    if value is None:
        return "not set"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]} ..."
