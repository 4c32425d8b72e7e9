"""Deploy prefect.yaml to a Prefect server; safe to repeat."""

from collections.abc import Callable
from datetime import timedelta

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import StateType
from prefect.events import EventTrigger, Posture, ResourceSpecification
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_RETRY_EXTRA_CODES, temporary_settings
from prefect.workers.process import ProcessWorker

from regrade.orchestration.deployment.apply import Deployed, Deployment, recall, remember
from regrade.orchestration.deployment.desired import read_desired
from regrade.orchestration.events import SCORERS_DEPLOYED, announce
from regrade.orchestration.remote.access import address, client_settings, without_login
from regrade.scorers import scorer_names
from regrade.scoring.score import label_now
from regrade.settings.errors import OperationError, SettingsError
from regrade.settings.project_folder import make_flows_importable, project_folder


def create_pool(client: SyncPrefectClient, name: str, limit: int | None) -> Deployed:
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
                name=name, type="process", base_job_template=template, concurrency_limit=limit
            )
        )
        return Deployed("pool", name, "created", f"Concurrent flow runs: {limit}." if limit else "")
    notes = []
    if pool.type != "process":
        notes.append(f"Its type is '{pool.type}', a new pool gets 'process'.")
    if pool.concurrency_limit != limit:
        notes.append(
            f"Its limit is {pool.concurrency_limit}, a new pool gets {limit} "
            f"(`prefect work-pool set-concurrency-limit {name} {limit}`)."
        )
    return Deployed("pool", name, "unchanged", " ".join(notes))


# Announce changed scorers on the server, which starts `rescore-answers` for stale scores.

MEMORY = "regrade_deployed_scorers"
"""Prefect variable with the label of each deployed scorer, by name."""


def announce_changed_scorers(client: SyncPrefectClient) -> list[Deployed]:
    """Send the event `regrade.scorers.deployed` if scorers changed since the last deployment; return these scorers.

    The first deployment sends no event.
    """
    now = {name: label for name in scorer_names() if (label := label_now(name))}
    before = recall(client, MEMORY)
    changed = sorted(name for name in now if before and before.get(name, now[name]) != now[name])
    if changed:
        announce(client, SCORERS_DEPLOYED, "regrade.scorers", {"changed": changed, "scorers": now})
    if before != now:
        remember(client, MEMORY, now)
    note = "`rescore-answers` replaces stale scores."
    return [
        Deployed("scorer", name, "updated", f"{before[name]} -> {now[name]}: {note}")
        for name in changed
    ]


# An automation that sets a flow run to Crashed if its heartbeats stop.
#
# A worker reports runs whose process died. If the worker or its machine dies, too, the run would stay Running for
# ever. Each run sends a heartbeat (every 3 minutes by default), and an automation has to notice that they stopped:
# https://docs.prefect.io/v3/advanced/detect-zombie-flows

NAME = "regrade: a run that fell silent has crashed"
MESSAGE = "No heartbeat: the worker or its machine is gone. Finished answers are kept; run it again to continue."
SILENCE = timedelta(minutes=10)
"""Longest time without a heartbeat: three intervals, so that a restart of the server or its database does no harm."""
HEARTBEAT = "prefect.flow-run.heartbeat"
ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "AwaitingRetry")
"""States after which no heartbeat is expected; a run that waits for a worker sends none."""


def crash_silent_runs(
    client: SyncPrefectClient, *, name: str = NAME, silence: timedelta = SILENCE
) -> Deployed:
    """Create the automation, or add the states that an existing one of that name does not know."""
    expected = {HEARTBEAT, *(f"prefect.flow-run.{end}" for end in ENDS)}
    for automation in client.read_automations_by_name(name):
        trigger = automation.trigger
        if not isinstance(trigger, EventTrigger) or expected <= trigger.expect:
            return Deployed("automation", name, "unchanged")
        trigger.expect |= expected
        known = AutomationCore.model_validate(
            automation.model_dump(exclude={"id", "owner_resource"})
        )
        client.update_automation(automation.id, known)
        return Deployed("automation", name, "updated", changed=["states that end a run"])
    client.create_automation(
        AutomationCore(
            name=name,
            description=MESSAGE,
            trigger=EventTrigger(
                after={HEARTBEAT},
                expect=expected,
                match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
                for_each={"prefect.resource.id"},
                posture=Posture.Proactive,
                threshold=1,
                within=silence,
            ),
            actions=[ChangeFlowRunState(state=StateType.CRASHED, message=MESSAGE)],
        )
    )
    return Deployed("automation", name, "created")


LIMITS = {"gpu": 4}
"""Concurrent flow runs of a new work pool, for each machine: one generates, while others publish, score and track."""


_CHANGED_BY_HAND = (
    "No deployment was changed, because these settings were changed on the server by hand. Change them back, or overwrite them "
    "with `--force`:"
)


def deploy_project(report: Callable[[Deployed], None], *, force: bool) -> None:
    """Create or update pools, deployments, triggers and automations on the server at PREFECT_API_URL.

    Args:
        report: Called after each object.
        force: Overwrite settings that were changed by hand on the server, too.

    Raises:
        SettingsError: If PREFECT_API_URL is not set or leads to something else, prefect.yaml holds an unknown setting, or a
            deployment was changed by hand.
        OperationError: If the server refuses or does not answer.
    """
    url = address()
    make_flows_importable()
    deployments = read_desired(project_folder() / "prefect.yaml")
    # A server on SQLite answers 500 while its database is locked. All requests here are safe to repeat.
    retries = {PREFECT_CLIENT_RETRY_EXTRA_CODES: PREFECT_CLIENT_RETRY_EXTRA_CODES.value() or {500}}
    try:
        with (
            temporary_settings(retries),
            get_client(sync_client=True, httpx_settings=client_settings()) as client,
        ):
            for pool in sorted({deployment.pool for deployment in deployments}):
                report(create_pool(client, pool, LIMITS.get(pool)))
            found = [Deployment(client, deployment) for deployment in deployments]
            by_hand = [line for deployment in found for line in deployment.changed_by_hand()]
            if by_hand and not force:
                raise SettingsError("\n  ".join([_CHANGED_BY_HAND, *by_hand]))
            for deployment in found:
                report(deployment.apply())
            for outcome in announce_changed_scorers(client):
                report(outcome)
            report(crash_silent_runs(client))
    except PrefectHTTPStatusError as error:
        raise OperationError(f"The Prefect server {url} refused: {without_login(error)}") from error
    except httpx.TransportError as error:
        problem = f"{type(error).__name__}: {error}"
        raise OperationError(f"The Prefect server {url} does not answer ({problem}).") from error
