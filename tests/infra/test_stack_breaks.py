"""Kill the servers, the worker or the machine of a run, on a real stack with a real engine."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from regrade.answers.local import LocalRepository
from regrade.orchestration.deployment.deploy import MESSAGE, crash_silent_runs
from tests.command_line import DEMO
from tests.crash.harness import Account, stored
from tests.infra.running_stack import Stack, living, wait_until
from tests.orchestration.deployment.test_heartbeats import heartbeat

pytestmark = [pytest.mark.stack, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1200)]

AWAY_SECONDS = 60.0
SILENCE = timedelta(seconds=10)
ROWS = 2000


class Long:
    """An evaluation that is long enough to be interrupted, with an empty repository."""

    def __init__(self, stack: Stack, demo: dict[str, Any], name: str, rows: int = ROWS) -> None:
        self.stack, self.rows = stack, rows
        # Below a folder that the user of the workers may write to.
        self.repository = LocalRepository(stack.place.worker / name)
        self.account = Account()
        questions = write_questions(stack.place.home / f"{name}.jsonl", rows)
        dataset = {**demo["datasets"][0], "name": name, "path": str(questions)}
        self._parameters = {**demo, "datasets": [dataset], "answers": self.repository.uri}

    def start(self) -> str:
        """Start the evaluation, slowed down to one sequence at a time, and return the id of its flow run."""
        engine = {**self._parameters["engine"], "max_num_seqs": 1}
        return self.stack.start_run("evaluate-model", {**self._parameters, "engine": engine})

    def until_it_moves(self, flow_run_id: str) -> None:
        """Wait until the run's page shows more answers than now."""
        before = self.stack.progress(flow_run_id)
        wait_until(
            lambda: self.stack.progress(flow_run_id) > before,
            540,
            lambda: self.stack.told(flow_run_id),
        )

    def take(self) -> None:
        """Record the stored answers and those in the spool."""
        self.account.take(self.repository, self.stack.spool)

    def assert_whole(self, flow_run_id: str) -> None:
        """Check that every row is stored once, and that none was generated twice."""
        self.stack.completed(flow_run_id)
        self.take()
        rows = stored(self.repository)
        assert len(rows) == len(dict(rows)) == self.rows
        assert not self.account.lost
        assert not self.account.again
        assert not self.account.doubled


def write_questions(path: Path, rows: int) -> Path:
    questions = [
        json.loads(line) for line in (DEMO / "data/arithmetic.jsonl").read_text().splitlines()
    ]
    with path.open("w") as file:
        for number in range(rows):
            row = questions[number % len(questions)]
            question = f"{number}. {row['question']}"
            file.write(json.dumps({**row, "question": question}) + "\n")
    return path


def test_a_run_outlives_its_worker_a_restart_of_the_server_and_a_minute_without_the_database(
    stack: Stack, demo: dict[str, Any]
):
    run = Long(stack, demo, "outlived")
    flow_run_id = run.start()
    run.until_it_moves(flow_run_id)

    worker = stack.parts()["worker-gpu"]
    stack.kill("worker-gpu", alone=True)
    wait_until(lambda: stack.parts()["worker-gpu"] != worker, 60, stack.output.read_text)
    run.until_it_moves(flow_run_id)

    server = stack.parts()["prefect"]
    stack.kill("prefect")
    wait_until(lambda: stack.parts()["prefect"] != server, 60, stack.output.read_text)
    wait_until(stack.works, 120, stack.output.read_text)
    run.until_it_moves(flow_run_id)

    with stack.nothing_started_again():
        stack.kill("postgres")
        time.sleep(AWAY_SECONDS)
    wait_until(stack.works, 120, stack.output.read_text)
    run.assert_whole(flow_run_id)


def test_a_run_whose_machine_died_has_crashed_and_a_retry_goes_on(
    stack: Stack, demo: dict[str, Any]
):
    run = Long(stack, demo, "died", 600)
    flow_run_id = run.start()
    run.until_it_moves(flow_run_id)
    processes = stack.below("worker-gpu")

    stack.kill("worker-gpu")  # and the flow with it
    wait_until(lambda: not living(processes), 15, lambda: str(living(processes)))
    assert stack.flow_run(flow_run_id)["state_type"] == "RUNNING"  # nobody is left to tell
    run.take()
    assert 0 < len(run.account.known) < run.rows
    fall_silent(stack, flow_run_id)
    assert stack.flow_run(flow_run_id)["state_type"] == "CRASHED"
    assert stack.flow_run(flow_run_id)["state"]["message"] == MESSAGE

    stack.set_state(flow_run_id, "SCHEDULED", "AwaitingRetry")  # as the button Retry does
    run.assert_whole(flow_run_id)


def fall_silent(stack: Stack, flow_run_id: str) -> None:
    """Wait until the run is set to Crashed, by the automation of `regrade deploy` with seconds instead of minutes."""
    name = f"silent {uuid4()}"
    with (
        temporary_settings({PREFECT_API_URL: stack.api, PREFECT_API_AUTH_STRING: stack.login}),
        get_client(sync_client=True) as client,
    ):
        crash_silent_runs(client, name=name, silence=SILENCE)

        def noticed() -> bool:
            # A second heartbeat, in case the server had not loaded the automation before the first.
            beats = [heartbeat(flow_run_id)]
            httpx.post(f"{stack.api}/events", json=beats, auth=stack.auth).raise_for_status()
            time.sleep(3 * SILENCE.total_seconds())
            return stack.has_ended(flow_run_id)

        wait_until(noticed, 150, "nobody noticed")
        (automation,) = client.read_automations_by_name(name)
        # Otherwise it also ends the retry, whose heartbeats come every 3 minutes.
        client.delete_automation(automation.id)
