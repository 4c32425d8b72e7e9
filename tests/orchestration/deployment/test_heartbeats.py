"""The automation that sets a flow run without heartbeats to Crashed; tests/infra/test_stack_breaks.py sees it do so."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient

from regrade.orchestration.deployment import deploy as heartbeats
from regrade.orchestration.deployment.deploy import HEARTBEAT, crash_silent_runs

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


def heartbeat(flow_run_id: str) -> dict[str, Any]:
    """Send the heartbeat event of a flow run."""
    return {
        "id": str(uuid4()),
        "event": HEARTBEAT,
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{flow_run_id}"},
    }


def test_an_automation_of_an_older_version_learns_the_states_that_it_does_not_know(
    prefect_client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
):
    name, client = f"older {uuid4()}", prefect_client
    with monkeypatch.context() as older:
        older.setattr(heartbeats, "ENDS", heartbeats.ENDS[:-1])
        assert crash_silent_runs(client, name=name).state == "created"
    (before,) = client.read_automations_by_name(name)
    assert crash_silent_runs(client, name=name).state == "updated"
    assert crash_silent_runs(client, name=name).state == "unchanged"
    (after,) = client.read_automations_by_name(name)
    client.delete_automation(after.id)
    added = after.trigger.expect - before.trigger.expect  # type: ignore[union-attr]
    assert added == {"prefect.flow-run.AwaitingRetry"}
    assert before.model_dump(exclude={"trigger"}) == after.model_dump(exclude={"trigger"})
    assert before.trigger.within == after.trigger.within  # type: ignore[union-attr]
