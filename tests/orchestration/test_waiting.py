"""A flow run that waits for another one says so, and makes room at its worker when it needs no engine. Real Prefect."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL, temporary_settings

from regrade.orchestration.project_job import ProjectJob
from regrade.orchestration.project_worker import ProjectWorker
from regrade.orchestration.waiting import Stages
from regrade.orchestration.worker import ENGINE_DONE, engine_no_longer_needed


@flow
def waits_twice() -> str:
    steps: list[str] = []
    stages = Stages(steps.append)
    for stage in ("waiting for A", "waiting for B", "importing vLLM", "loading the model"):
        stages.show(stage)
    assert steps == ["importing vLLM", "loading the model"]
    return str(flow_run.id)


@pytest.mark.prefect
def test_the_state_names_the_run_that_is_waited_for(prefect_client: SyncPrefectClient):
    states = prefect_client.read_flow_run_states(UUID(waits_twice()))
    shown = [(state.type.value, state.name, state.message) for state in states]
    assert shown[1:] == [
        ("RUNNING", "Running", None),
        ("RUNNING", "AwaitingOtherRun", "Waiting for A."),
        ("RUNNING", "AwaitingOtherRun", "Waiting for B."),
        ("RUNNING", "Running", ""),
        ("COMPLETED", "Completed", None),
    ]


@flow
def asks_a_server_that_is_gone() -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        Stages().show("waiting for A")


@pytest.mark.prefect
@pytest.mark.usefixtures("flows_on_server")
def test_a_server_that_is_gone_holds_up_no_engine(caplog: pytest.LogCaptureFixture):
    asks_a_server_that_is_gone()
    (warning,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert "the state 'AwaitingOtherRun' is not shown in Prefect" in warning.getMessage()


class Runner:
    """Runs a flow run's process until `end` is set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.end = asyncio.Event()
        self.env: dict[str, str] = {}

    async def execute_flow_run(self, **given: Any) -> Any:
        self.env = given["env"]
        await self.end.wait()
        return SimpleNamespace(returncode=0, pid=1)


@pytest.mark.parametrize("once", [False, True])
def test_a_run_that_needs_no_engine_makes_room_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool
):
    monkeypatch.setattr("regrade.orchestration.project_worker.POLL", 0.02)

    async def run() -> None:
        worker = ProjectWorker(work_pool_name="gpu", limit=1)
        worker.once = once
        worker._limiter = anyio.CapacityLimiter(1)
        runner: Any = Runner(tmp_path)
        worker._runner = runner
        here = FlowRun(id=uuid4(), flow_id=uuid4())
        worker.limiter.acquire_on_behalf_of_nowait(here.id)
        running = asyncio.create_task(worker.run(here, ProjectJob()))
        await asyncio.sleep(0.1)
        assert worker.limiter.borrowed_tokens == 1
        monkeypatch.setenv(ENGINE_DONE, runner.env[ENGINE_DONE])
        engine_no_longer_needed()
        await asyncio.sleep(0.1)
        assert worker.limiter.borrowed_tokens == (1 if once else 0)
        runner.end.set()
        assert (await running).status_code == 0
        assert list(tmp_path.iterdir()) == []

    asyncio.run(run())
