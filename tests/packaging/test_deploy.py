"""`regrade deploy` and a worker, both from the installed wheel, started in a user's Prefect project."""

from pathlib import Path

import httpx
import pytest

from regrade.answers.local import LocalRepository
from tests.packaging.conftest import Installed
from tests.prefect_login import Login
from tests.stored import numbers, publish

pytestmark = pytest.mark.prefect
QUEUE = "packaging"
"""Other tests of the session schedule runs in the same pool."""


@pytest.mark.slow
def test_a_worker_with_the_wheel_runs_the_deployment_in_a_folder_that_has_its_own_flows(
    installed: Installed, prefect_server: str, tmp_path: Path
):
    deployed = installed.regrade("deploy", "--json", PREFECT_API_URL=prefect_server)
    assert deployed.code == 0, deployed.err
    assert deployed.document["project"] == str(installed.package / "project")
    repository = LocalRepository(tmp_path / "answers")
    answers = publish(repository, numbers(0, 3))
    before = {path for path in installed.package.rglob("*") if path.suffix != ".pyc"}
    with httpx.Client(base_url=prefect_server, auth=Login(), timeout=60) as api:
        found = api.get("/deployments/name/score-answers/score-answers").raise_for_status().json()
        assert str(installed.environment) not in str(found), "a path of the machine that deployed"
        body = {"parameters": {"answers": repository.uri}, "work_queue_name": QUEUE}
        path = f"/deployments/{found['id']}/create_flow_run"
        created = api.post(path, json=body).raise_for_status().json()

        worker = [installed.python, "-m", "regrade.cli.main", "worker", "--pool", "cpu"]
        worker += ["--work-queue", QUEUE, "--run-once"]
        spool = str(tmp_path / "spool")
        done = installed.run(worker, {"PREFECT_API_URL": prefect_server, "REGRADE_SPOOL": spool})

        ended = api.get(f"/flow_runs/{created['id']}").json()
    assert ended["state_type"] == "COMPLETED", (ended["state"], done.out, done.err)
    assert repository.head() != answers.revision  # the scores
    after = {path for path in installed.package.rglob("*") if path.suffix != ".pyc"}
    assert after - before <= {path for path in after if path.name == "__pycache__"}
