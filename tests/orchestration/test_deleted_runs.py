"""Runs on other machines that were deleted on the Prefect server have ended."""

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed

from regrade.orchestration import machines
from regrade.orchestration.machines import machines_ended_early, wait_for_machines

DELETED, DONE = uuid4(), uuid4()


def read_flow_run(run: UUID) -> Any:
    if run == DELETED:
        raise ObjectNotFound(Exception("404"))
    return SimpleNamespace(state=Completed())


@pytest.mark.timeout(10)
def test_a_deleted_run_counts_as_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    client = SimpleNamespace(read_flow_run=read_flow_run)
    monkeypatch.setattr(machines, "get_client", lambda **_: nullcontext(client))
    monkeypatch.setattr(machines, "POLL", 0.01)
    caplog.set_level(logging.INFO, logger="regrade.generate")

    wait_for_machines([DELETED, DONE], lambda: False)

    assert "does not return" not in caplog.text
    assert "Machines: 1 Cancelled, 1 Completed." in caplog.text
    assert "1 Cancelled" in str(machines_ended_early([DELETED, DONE]))
