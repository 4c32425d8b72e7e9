"""A worker on another machine: another checkout, in another folder, that knows the addresses and the login."""

import os
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from infra.stack.parts import client_environment
from regrade.answers.local import LocalRepository
from regrade.processes.environment import TELEMETRY_OFF
from tests.command_line import ROOT, run
from tests.infra.running_stack import Stack
from tests.stored import numbers, publish

pytestmark = [pytest.mark.stack, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1200)]

CHECKOUT = ("flows", "infra", "regrade", "tasks", "prefect.yaml")
ADDRESSES = ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_URI")
"""Variables of infra/compose.worker.yaml that a worker needs for the servers."""


@pytest.fixture
def another_machine(stack: Stack, tmp_path: Path) -> dict[str, str]:
    """Environment of a checkout in a folder of its own, with nothing of the stack but addresses and login."""
    for name in CHECKOUT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    known = client_environment(stack.place)
    return {
        **TELEMETRY_OFF,
        **{name: known[name] for name in ADDRESSES if name in known},
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(tmp_path),
        "REGRADE_ANSWERS": str(tmp_path / "answers"),
    }


def test_a_worker_that_knows_only_the_addresses_and_the_login_runs_a_deployment(
    stack: Stack, another_machine: dict[str, str], tmp_path: Path
):
    repository = LocalRepository(tmp_path / "answers")
    answers = publish(repository, numbers(0, 3))
    assert not [name for name, value in another_machine.items() if "postgres" in value.lower()]
    ours = stack.parts()["worker-cpu"].process()
    assert isinstance(ours, psutil.Process)
    ours.suspend()
    try:
        flow_run_id = stack.start_run("score-answers", {})
        start = ["regrade.cli.main", "worker", "--pool", "cpu"]
        options = ["--name", "another-machine", "--run-once"]
        command = ["env", "-i", *(f"{name}={value}" for name, value in another_machine.items())]
        done = run([*command, sys.executable, "-m", *start, *options], 200, {}, cwd=tmp_path)
        assert stack.finish(flow_run_id)["state_type"] == "COMPLETED", done
    finally:
        ours.resume()
    assert "another-machine" in stack.told(flow_run_id)
    assert repository.head() != answers.revision  # the scores
