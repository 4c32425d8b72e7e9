"""Ctrl-C in the terminal of a worker whose run generates: answers are kept, and the next worker continues the run."""

import os
import signal
import time
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient

from regrade.answers.local import LocalRepository
from tests.command_line import DEMO, ROOT
from tests.crash.harness import (
    ENGINE,
    Command,
    answer_set,
    demo_datasets,
    spooled,
    stored,
    wait_until,
    whole_rows,
)
from tests.prefect_fixtures import state_of

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(900)]
QUESTIONS = 120
SECONDS = 30.0
"""Longest time for a worker to end: its runs have 10 s, and the server answers within 5 s."""


def press_ctrl_c(worker: Command, leader: int) -> None:
    """Send SIGINT as a terminal does: to the worker and to the processes of its group."""
    for pid in worker.processes():
        if os.getpgid(pid) == os.getpgid(leader):
            os.kill(pid, signal.SIGINT)


def test_the_next_worker_continues_a_run_whose_worker_was_interrupted(
    client: SyncPrefectClient, prefect_server: str, tmp_path: Path
):
    queue = f"interrupted-{uuid4()}"
    repository = LocalRepository(tmp_path / "answers")
    worker = Command(
        tmp_path / "worker",
        ["worker", "--pool", "gpu", "--limit", "1", "--work-queue", queue],
        {"PREFECT_API_URL": prefect_server, "PYTHONPATH": str(ROOT)},
    )
    parameters = {
        "datasets": demo_datasets()[:1],
        "engine": ENGINE | {"max_num_seqs": 2},  # slow enough to be stopped between two answers
        "limit": QUESTIONS,
        "model": str(DEMO / "regrade-demo"),
        "answers": repository.uri,
        "tracking_uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
    }
    deployment = client.read_deployment_by_name("evaluate-model/evaluate-model")
    run = client.create_flow_run_from_deployment(
        deployment.id, parameters=parameters, work_queue_name=queue
    )

    with worker.started() as first:
        wait_until(lambda: len(spooled(worker.spool)) >= 10, 300, "no answers came")
        assert worker.processes("flow_run_process"), "its process is not one of the worker's"
        assert worker.processes("vllm_process")
        begin = time.monotonic()
        press_ctrl_c(worker, first.process.pid)
        ended = first.wait(SECONDS + 30)
        seconds = time.monotonic() - begin
    told = ended.out + ended.err
    assert seconds < SECONDS, told
    worker.assert_nothing_left()
    assert state_of(client, run).name == "AwaitingRetry", told
    before = spooled(worker.spool) | dict(stored(repository))
    assert 10 <= len(before) < QUESTIONS

    with worker.started() as second:
        wait_until(lambda: state_of(client, run).is_final(), 300, "the run did not end")
        state = state_of(client, run)
        assert state.is_completed(), f"{state} {second.err.read_text()[-5000:]}"
        press_ctrl_c(worker, second.process.pid)
        second.wait(SECONDS + 30)
    worker.assert_nothing_left()
    rows = whole_rows(repository, QUESTIONS)
    assert before.items() <= rows.items(), "an answer was generated again"
    assert len(answer_set(repository).scores()) == 1
    assert spooled(worker.spool) == {}
