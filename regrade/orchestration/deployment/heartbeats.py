"""An automation that sets a flow run to Crashed if its heartbeats stop.

A worker reports runs whose process died. If the worker or its machine dies, too, the run would stay Running for ever.
Each run sends a heartbeat (every 3 minutes by default), and an automation has to notice that they stopped:
https://docs.prefect.io/v3/advanced/detect-zombie-flows
"""

from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events import EventTrigger, Posture, ResourceSpecification
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore

from regrade.orchestration.deployment.outcome import Outcome

NAME = "regrade: a run that fell silent has crashed"
MESSAGE = "No heartbeat: the worker or its machine is gone. Finished answers are kept; run it again to continue."
SILENCE = timedelta(minutes=10)
"""Longest time without a heartbeat: three intervals, so that a restart of the server or its database does no harm."""
HEARTBEAT = "prefect.flow-run.heartbeat"
ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "AwaitingRetry")
"""States after which no heartbeat is expected; a run that waits for a worker sends none."""


def crash_silent_runs(
    client: SyncPrefectClient, *, name: str = NAME, silence: timedelta = SILENCE
) -> Outcome:
    """Create the automation, or add the states that an existing one of that name does not know."""
    expected = {HEARTBEAT, *(f"prefect.flow-run.{end}" for end in ENDS)}
    for automation in client.read_automations_by_name(name):
        trigger = automation.trigger
        if not isinstance(trigger, EventTrigger) or expected <= trigger.expect:
            return Outcome("automation", name, "unchanged")
        trigger.expect |= expected
        known = AutomationCore.model_validate(
            automation.model_dump(exclude={"id", "owner_resource"})
        )
        client.update_automation(automation.id, known)
        return Outcome("automation", name, "updated", changed=["states that end a run"])
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
    return Outcome("automation", name, "created")
