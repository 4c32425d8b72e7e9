"""`machines: n` of `evaluate-model`: runs of `generate-answers` on a real Prefect server, found again, cancelled together."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Cancelled, Failed, Running

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.jobs.job import EvaluationJob, make_job
from regrade.orchestration import machines
from regrade.orchestration.machines import start_machines, wait_for_machines
from regrade.settings.errors import SettingsError
from tests.command_line import ROOT
from tests.engines.openai_api.test_client import misbehaving_server
from tests.prefect_fixtures import state_of
from tests.processes.trees import wait_until

pytestmark = [
    pytest.mark.usefixtures("mlflow_database"),
    pytest.mark.prefect,
    pytest.mark.timeout(500),
]
PARAMETERS = {"model": "org/tiny", "benchmarks": ["gsm8k"]}


def started_by(client: SyncPrefectClient, action: Callable[[], Any]) -> Any:
    """Call an action inside a flow run, and cancel what it started."""

    @flow(name=f"parent {uuid4()}")
    def parent() -> Any:
        return action()

    return parent()


def runs_of(client: SyncPrefectClient, runs: list[UUID]) -> list[dict[str, Any]]:
    return [client.read_flow_run(run).parameters for run in runs]


def test_each_machine_gets_its_share_and_a_retry_finds_the_runs_again(client: SyncPrefectClient):
    found: dict[str, Any] = {}

    def twice() -> None:
        found["first"] = start_machines(3, PARAMETERS)
        found["again"] = start_machines(3, PARAMETERS)
        client.set_flow_run_state(found["first"][1], Failed(), force=True)
        found["after a failure"] = start_machines(3, PARAMETERS)

    started_by(client, twice)

    first, after = found["first"], found["after a failure"]
    assert found["again"] == first
    assert (after[0], after[2]) == (first[0], first[2])
    assert after[1] not in first
    assert runs_of(client, first) == [PARAMETERS | {"share": f"{n}/3"} for n in (1, 2, 3)]
    assert client.read_flow_run(after[1]).parameters["share"] == "2/3"
    for run in {*first, *after}:
        assert client.read_flow_run(run).parent_task_run_id is not None
        client.set_flow_run_state(run, Cancelled(), force=True)


def test_machines_that_did_not_begin_are_cancelled_when_the_answers_are_complete(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(machines, "POLL", 0.1)

    def wait() -> list[UUID]:
        runs = start_machines(2, PARAMETERS)
        from prefect.states import Completed

        client.set_flow_run_state(runs[0], Completed(), force=True)
        wait_for_machines(runs, lambda: True)
        return runs

    runs = started_by(client, wait)
    state = client.read_flow_run(runs[1]).state
    assert state is not None
    assert state.is_cancelled()


def test_more_machines_than_the_pool_lets_run_are_refused(client: SyncPrefectClient):
    with pytest.raises(SettingsError, match="set-concurrency-limit gpu 10"):
        started_by(client, lambda: start_machines(9, PARAMETERS))


def test_a_server_without_deployments_is_refused(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(machines, "DEPLOYMENT", "generate-answers/no-such-deployment")
    with pytest.raises(SettingsError, match="regrade deploy.*--share 1/N"):
        started_by(client, lambda: start_machines(2, PARAMETERS))


def test_the_machines_get_what_was_set_and_nothing_else():
    job = make_job(
        EvaluationJob,
        {
            "model": "m",
            "benchmarks": ("gsm8k",),
            "sampling": {"temperature": 0.5},
            "machines": 2,
            "scorer": "number",
            "answers": "/answers",
        },
    )
    assert json.loads(json.dumps(job.generation_parameters)) == {
        "model": "m",
        "benchmarks": ["gsm8k"],
        "sampling": {"temperature": 0.5},
        "answers": "/answers",
    }
    with pytest.raises(SettingsError, match="gives each machine its share"):
        make_job(EvaluationJob, {**PARAMETERS, "machines": 2, "share": "1/2"})


@pytest.mark.slow
def test_a_run_that_is_cancelled_cancels_its_machines(client: SyncPrefectClient):
    runs = started_by(client, lambda: start_machines(2, PARAMETERS))
    task = client.read_flow_run(runs[0]).parent_task_run_id
    assert task is not None
    parent = client.read_task_run(task).flow_run_id
    assert parent is not None
    client.set_flow_run_state(parent, Running(), force=True)
    client.set_flow_run_state(parent, Cancelled(), force=True)

    def cancelled() -> bool:
        states = [client.read_flow_run(run).state for run in runs]
        return all(state and (state.is_cancelling() or state.is_cancelled()) for state in states)

    wait_until(cancelled, 120, pause=1)


@pytest.mark.slow
def test_two_machines_generate_and_the_run_that_started_them_scores(
    client: SyncPrefectClient, prefect_server: str, tmp_path: Path
):
    rows = [{"question": f"{number}", "answer": f"{number}"} for number in range(300)]
    data = tmp_path / "questions.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers, queue = tmp_path / "answers", f"machines-{uuid4()}"
    with misbehaving_server() as server:
        server.root, server.delay = "/models/small", 0.05
        dataset = {"name": "mine", "path": str(data), "scorer": "number", "format": "completion"}
        settings = {
            "model": "small",
            "engine": {"kind": "openai", "base_url": server.url, "max_concurrency": 1},
            "datasets": [dataset],
            "answers": str(answers),
            "tracking_uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
            "machines": 2,
        }
        environment = {
            **os.environ,
            "PREFECT_API_URL": prefect_server,
            "REGRADE_SPOOL": str(tmp_path / "spool"),
            "REGRADE_PUBLISH_SECONDS": "1",
            "PYTHONPATH": str(ROOT),
        }
        worker = [sys.executable, "-m", "regrade.cli.main", "worker", "--pool", "gpu"]
        worker += ["--work-queue", queue, "--limit", "3"]
        with (
            (tmp_path / "worker.log").open("wb") as log,
            subprocess.Popen(worker, env=environment, stdout=log, stderr=log, cwd=ROOT) as process,
        ):
            try:
                deployment = client.read_deployment_by_name("evaluate-model/evaluate-model")
                run = client.create_flow_run_from_deployment(
                    deployment.id, parameters=settings, work_queue_name=queue
                )
                log_text = (tmp_path / "worker.log").read_text
                wait_until(lambda: state_of(client, run).is_final(), 400, log_text, 2)
            finally:
                process.terminate()
                process.wait(60)
        state = state_of(client, run)
        assert state.is_completed(), f"{state} {log_text()[-5000:]}"
    repository = LocalRepository(answers)
    (stored,) = list_sets(repository, repository.head() or "")
    assert stored.manifest.state == "complete"
    assert stored.manifest.rows == 300
    assert len(stored.manifest.sessions) == 2
    assert len(stored.scores()) == 1
