"""A worker that is stopped ends the processes of its runs, and returns the runs to the server."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling, Completed, Pending, Running

from regrade.orchestration import returned_runs
from regrade.orchestration.returned_runs import return_runs

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(120)]
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
WAITING = "import time; print(flush=True); time.sleep(60)"


@flow
def waiting() -> None:
    pass


async def returned(
    client: PrefectClient, program: str, state: State[Any], *, late: bool = False
) -> FlowRun:
    """A run in this state after its worker was stopped, whose process runs a program.

    Args:
        client: Client of the server.
        program: Code for Python.
        state: State of the run.
        late: The worker is stopped before the process appears.
    """
    run = await client.create_flow_run(waiting, state=Running())
    await client.set_flow_run_state(run.id, state, force=True)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        await client.update_flow_run(run.id, infrastructure_pid=str(process.pid))
        starting = {run.id}
        processes: dict[UUID, Any] = {}

        async def watch() -> None:
            """Add the process, and remove it when it has ended, as Prefect's runner does."""
            if late:
                await asyncio.sleep(2 * returned_runs.POLL)
            processes[run.id] = {"flow_run": run, "pid": process.pid}
            starting.clear()
            while process.poll() is None:
                await asyncio.sleep(0.05)
            processes.clear()

        watching = asyncio.create_task(watch())
        if not late:
            await asyncio.sleep(0)
            assert processes
        await return_runs(client, processes, starting)
        watching.cancel()
        process.kill()
    return await client.read_flow_run(run.id)


def on(server: str, act: Callable[[PrefectClient], Awaitable[FlowRun]]) -> State[Any]:
    """Return the state of a run after what a test does with a client of the server."""

    async def run() -> State[Any]:
        async with get_client() as client:
            return cast("State[Any]", (await act(client)).state)

    with temporary_settings({PREFECT_API_URL: server}):
        return asyncio.run(run())


def after(server: str, program: str, state: State[Any], *, late: bool = False) -> State[Any]:
    return on(server, lambda client: returned(client, program, state, late=late))


@pytest.mark.parametrize("state", [Running(), Pending()], ids=["running", "pending"])
@pytest.mark.parametrize("late", [False, True], ids=["now", "late"])
def test_a_run_whose_process_was_ended_waits_for_the_next_worker(
    prefect_server: str, state: State[Any], *, late: bool
):
    found = after(prefect_server, WAITING, state, late=late)

    assert found.name == "AwaitingRetry"
    assert found.message == returned_runs.MESSAGE


def test_a_run_whose_worker_starts_no_process_any_more_waits_for_the_next_worker(
    prefect_server: str,
):
    async def act(client: PrefectClient) -> FlowRun:
        flow_run = await client.create_flow_run(waiting, state=Pending())
        starting = {flow_run.id}
        asyncio.get_running_loop().call_later(2 * returned_runs.POLL, starting.clear)
        await return_runs(client, {}, starting)
        return await client.read_flow_run(flow_run.id)

    assert on(prefect_server, act).name == "AwaitingRetry"


def test_a_returned_run_that_is_cancelled_waits_for_no_worker(prefect_server: str):
    async def act(client: PrefectClient) -> FlowRun:
        found = await returned(client, WAITING, Running())
        assert found.infrastructure_pid is None
        await client.set_flow_run_state(found.id, Cancelling())
        return await client.read_flow_run(found.id)

    assert on(prefect_server, act).is_cancelled()


def test_ctrl_c_in_the_terminal_of_the_worker_does_not_reach_the_flow(tmp_path: Path):
    program = """
import os, runpy, signal
start = runpy.run_module
def engine(name, **_):
    os.kill(os.getpid(), signal.SIGINT)
    print(name)
runpy.run_module = engine
start("regrade.orchestration.flow_run_process", run_name="__main__", alter_sys=True)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"REGRADE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == ["prefect.engine"]


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
