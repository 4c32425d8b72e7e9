"""A worker that is stopped ends the processes of its runs, and returns the runs to the server."""

import asyncio
import subprocess
import sys
from typing import Any, cast
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling, Completed, Running

from regrade.orchestration import returned_runs
from regrade.orchestration.returned_runs import return_runs

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(120)]
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
WAITING = "import time; print(flush=True); time.sleep(60)"


@flow
def waiting() -> None:
    pass


async def returned(client: PrefectClient, program: str, state: State[Any]) -> State[Any]:
    """State of a run in this state after its worker was stopped, whose process runs a program."""
    run = await client.create_flow_run(waiting, state=Running())
    await client.set_flow_run_state(run.id, state, force=True)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        processes: dict[UUID, Any] = {run.id: {"flow_run": run, "pid": process.pid}}

        async def watch() -> None:
            """Remove the process when it has ended, as Prefect's runner does."""
            while process.poll() is None:
                await asyncio.sleep(0.05)
            processes.clear()

        watching = asyncio.create_task(watch())
        await return_runs(client, processes)
        watching.cancel()
        process.kill()
    return cast("State[Any]", (await client.read_flow_run(run.id)).state)


def after(server: str, program: str, state: State[Any]) -> State[Any]:
    async def run() -> State[Any]:
        async with get_client() as client:
            return await returned(client, program, state)

    with temporary_settings({PREFECT_API_URL: server}):
        return asyncio.run(run())


def test_a_run_whose_process_was_ended_waits_for_the_next_worker(prefect_server: str):
    state = after(prefect_server, WAITING, Running())

    assert state.name == "AwaitingRetry"
    assert state.message == returned_runs.MESSAGE


@pytest.mark.parametrize("state", [Completed(), Cancelling()], ids=["completed", "cancelling"])
def test_a_run_that_has_ended_or_is_being_cancelled_keeps_its_state(
    prefect_server: str, state: State[Any]
):
    assert after(prefect_server, WAITING, state).type == state.type


def test_a_run_whose_process_does_not_end_is_not_given_to_another_worker(
    prefect_server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(returned_runs, "END_SECONDS", 0.5)
    monkeypatch.setattr(
        returned_runs.logger, "handlers", [caplog.handler]
    )  # Prefect's do not propagate
    assert after(prefect_server, STUBBORN, Running()).is_running()
    assert "does not end" in caplog.text
