"""Deploy to a real Prefect server, and run every deployment with process workers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.schema_tools.validation import validate

from tests.command_line import DEMO, ROOT, demo_parameters, regrade, run
from tests.prefect_login import Login

DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=[entry["name"] for entry in DEPLOYMENTS])
def test_each_deployment_loads_without_a_placeholder_and_its_parameters_fit(
    deployment: dict[str, Any],
):
    flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    schema = flow.parameters.model_dump_for_openapi()
    assert validate(deployment["parameters"], schema, ignore_required=True) == []
    assert set(deployment["parameters"]) <= set(flow.parameters.properties)


@pytest.fixture(scope="module")
def workers(
    prefect_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], Path]]:
    """Pools, deployments and a process worker for each pool."""
    home = tmp_path_factory.mktemp("workers")
    environment = {
        "PREFECT_API_URL": prefect_server,
        "REGRADE_SPOOL": str(home / "spool"),
        "REGRADE_LOGS": str(home / "logs"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for _ in range(2):  # as often as one likes
        deployed = regrade("deploy", timeout=200, **environment)
        assert deployed.code == 0, deployed.out + deployed.err
    processes = []
    for pool in ("gpu", "cpu"):
        with (home / f"{pool}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "regrade.cli.main", "worker", "--pool", pool],
                    env={**os.environ, **environment},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=home,
                )
            )
    yield environment, home
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(120)


def deployment_run(
    environment: dict[str, str], name: str, parameters: dict[str, Any]
) -> dict[str, Any]:
    """Run a deployment through the API, wait for its end, and return the flow run."""
    command = ["prefect", "deployment", "run", f"{name}/{name}", "--watch"]
    command += ["--params", json.dumps(parameters)]
    done = run([sys.executable, "-m", *command], 280, environment)
    assert done.code == 0, done.out + done.err
    found = httpx.post(
        f"{environment['PREFECT_API_URL']}/flow_runs/filter",
        json={"flows": {"name": {"any_": [name]}}, "sort": "START_TIME_DESC", "limit": 1},
        auth=Login(),
    )
    (flow_run,) = found.json()
    return dict(flow_run)


def artifacts(environment: dict[str, str], flow_run: dict[str, Any]) -> list[dict[str, Any]]:
    found = httpx.post(
        f"{environment['PREFECT_API_URL']}/artifacts/filter",
        json={"artifacts": {"flow_run_id": {"any_": [flow_run["id"]]}}},
        auth=Login(),
    )
    return list(found.json())


@pytest.mark.slow  # `make stack-test` runs most of them, on Postgres
@pytest.mark.vllm
@pytest.mark.prefect
@pytest.mark.timeout(900)
def test_every_deployment_runs_in_its_pool(workers: tuple[dict[str, str], Path]):
    environment, home = workers
    answers = str(home / "answers")
    config = demo_parameters()
    what = {**config, "limit": 8, "answers": answers}

    generated = deployment_run(environment, "generate-answers", what)
    assert generated["state_type"] == "COMPLETED", generated["state"]
    assert generated["name"] == (
        "regrade-demo: demo-arithmetic 8 of 8 answers, demo-choice 8 of 8 answers"
    )
    progress = [a for a in artifacts(environment, generated) if a["type"] == "progress"]
    assert {a["data"] for a in progress} == {100.0}
    assert any("8 of 8 answers" in a["description"] for a in progress)

    evaluated = deployment_run(environment, "evaluate-model", what)
    assert evaluated["state_type"] == "COMPLETED", evaluated["state"]
    (result,) = [a for a in artifacts(environment, evaluated) if a["type"] == "markdown"]
    assert "regrade score --answers" in result["data"]
    assert "data:image/png;base64," in result["data"]
    logs = (home / "logs").glob("engine-*.log")
    assert len(list(logs)) == 1  # the second flow found the answers complete, and loaded nothing

    scored = deployment_run(environment, "score-answers", {"answers": answers, "force": True})
    assert scored["state_type"] == "COMPLETED", scored["state"]
    assert scored["work_pool_name"] == "cpu"
    tasks = httpx.post(
        f"{environment['PREFECT_API_URL']}/task_runs/filter",
        json={"task_runs": {"flow_run_id": {"any_": [generated["id"]]}}},
        auth=Login(),
    ).json()
    names = {task["name"] for task in tasks}
    assert {"generate 2 answer sets", "publish demo-choice · regrade-demo"} <= names

    asked = {"model": str(DEMO / "regrade-demo"), "gpu": "h100", "gpus": 2, "max_model_len": 512}
    planned = deployment_run(environment, "plan-model", asked)
    assert (planned["state_type"], planned["work_pool_name"]) == ("COMPLETED", "cpu")
    (page,) = [a for a in artifacts(environment, planned) if a["key"] == "plan"]
    assert "by vLLM" in page["data"]
