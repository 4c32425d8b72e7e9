"""A flow run without heartbeats is set to Crashed, on a real Prefect server."""

import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient

from regrade.orchestration.deployment import deploy as heartbeats
from regrade.orchestration.deployment.deploy import HEARTBEAT, MESSAGE, crash_silent_runs
from tests.prefect_login import Login

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


def heartbeat(flow_run_id: str) -> dict[str, Any]:
    """Send the heartbeat event of a flow run."""
    return {
        "id": str(uuid4()),
        "event": HEARTBEAT,
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{flow_run_id}"},
    }


@pytest.mark.slow
def test_a_run_that_fell_silent_has_crashed(prefect_server: str, prefect_client: SyncPrefectClient):
    name = f"silent {uuid4()}"
    for state in ("created", "unchanged"):
        silence = timedelta(seconds=10)
        assert crash_silent_runs(prefect_client, name=name, silence=silence).state == state
    (automation,) = prefect_client.read_automations_by_name(name)

    with (
        httpx.Client(base_url=prefect_server, auth=Login(), timeout=60) as api,
        ExitStack() as stack,
    ):
        # The server is shared: the runs of later tests may be silent for longer.
        stack.callback(prefect_client.delete_automation, automation.id)
        flow = api.post("/flows/", json={"name": "silent"}).json()
        body = {"flow_id": flow["id"], "state": {"type": "RUNNING", "name": "Running"}}
        run = api.post("/flow_runs/", json=body).json()
        time.sleep(3)  # automations are loaded by the server's own service
        api.post("/events", json=[heartbeat(run["id"])]).raise_for_status()

        deadline = time.monotonic() + 120
        while (found := api.get(f"/flow_runs/{run['id']}").json())["state_type"] == "RUNNING":
            assert time.monotonic() < deadline, "the run is Running for ever"
            time.sleep(0.5)
        assert found["state_type"] == "CRASHED"
        assert found["state"]["message"] == MESSAGE


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
