"""A worker runs nothing but the installed flows, also for someone who can write to the server."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.workers.process import ProcessWorker
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_fixed

from regrade.orchestration.project_worker import (
    ProjectJob,
    ProjectWorker,
    RefusedRunError,
    installed_entrypoint,
    limits,
)
from tests.command_line import regrade
from tests.prefect_login import Login

PULL = [{"regrade.orchestration.pull_step.use_installed_project": {}}]
SCORE = "flows.score_answers.score_answers"
UNUSED: Any = object()
"""Client of a server; only references to blocks need one."""


def deployment(**changes: Any) -> DeploymentResponse:
    given = {"name": "score-answers", "flow_id": uuid4(), "entrypoint": SCORE, "pull_steps": PULL}
    return DeploymentResponse.model_validate(given | changes)


@pytest.mark.prefect
@pytest.mark.timeout(240)
def test_a_worker_runs_no_shell_for_someone_who_can_write_to_the_server(
    prefect_server: str, tmp_path: Path
):
    proof = tmp_path / "proof"
    shell = f"touch {proof}"
    pool = f"attacked-{uuid4()}"
    step = {"prefect.deployments.steps.run_shell_script": {"script": shell}}
    template = ProcessWorker.get_default_base_job_template()
    # SQLite is busy now and then; the server answers 503 then.
    retrying = Retrying(
        retry=retry_if_result(lambda answer: answer.status_code == 503),
        wait=wait_fixed(1),
        stop=stop_after_attempt(20),
    )
    with httpx.Client(base_url=prefect_server, auth=Login(), timeout=60) as api:

        def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = retrying(api.post, path, json=body)
            assert answer.is_success, answer.text
            return dict(answer.json())

        post("/work_pools/", {"name": pool, "type": "process", "base_job_template": template})
        flow = post("/flows/", {"name": f"hostile-{uuid4()}"})["id"]

        def deploy(name: str, **changes: Any) -> str:
            code = {"entrypoint": SCORE, "pull_steps": PULL, **changes}
            body = {"name": name, "flow_id": flow, "work_pool_name": pool, **code}
            return str(post("/deployments/", body)["id"])

        def start(name: str, run: dict[str, Any] | None = None, **changes: Any) -> str:
            path = f"/deployments/{deploy(name, **changes)}/create_flow_run"
            return str(post(path, run or {})["id"])

        evil = {"env": {"PYTHONPATH": str(tmp_path)}}
        runs = {
            start("pull", pull_steps=[step]): "the deployment 'pull' has other pull steps",
            start("more", pull_steps=[*PULL, step]): "the deployment 'more' has other pull steps",
            start(
                "function", {"parameters": {"command": shell}}, entrypoint="os.system"
            ): "has the entrypoint 'os.system'",
            start("file", entrypoint=f"{tmp_path}/x.py:main", path=str(tmp_path)): "entrypoint",
            start("command", {"job_variables": {"command": shell}}): "'command' is set.",
            start("always", job_variables={"command": shell}): "'command' is set.",
            start("folder", {"job_variables": {"working_dir": str(tmp_path)}}): "'working_dir'",
            start("paths", {"job_variables": evil}): "environment variable 'PYTHONPATH' is set",
            start("dots", {"job_variables": {"env.LD_PRELOAD": "x"}}): "variable 'LD_PRELOAD'",
        }
        ended = regrade("worker", "--pool", pool, "--run-once", PREFECT_API_URL=prefect_server)
        assert ended.code == 0, ended.out + ended.err
        for flow_run, reason in runs.items():
            found = api.get(f"/flow_runs/{flow_run}").json()
            assert found["state_type"] == "CRASHED", (reason, found["state"], ended.err)
            assert "This worker runs only the flows of the regrade" in found["state"]["message"]
            assert reason in found["state"]["message"]
    assert not proof.exists()
    assert "Traceback" not in ended.err


def test_the_code_of_the_installed_project_is_accepted():
    assert installed_entrypoint(deployment()) == SCORE


@pytest.mark.parametrize(
    "changes", [{"pull_steps": None}, {"pull_steps": []}, {"entrypoint": None}]
)
def test_a_deployment_without_its_code_is_refused(changes: dict[str, Any]):
    with pytest.raises(RefusedRunError, match="`regrade deploy` restores"):
        installed_entrypoint(deployment(**changes))


def test_a_run_without_a_deployment_is_refused():
    with pytest.raises(RefusedRunError, match="the run has no deployment"):
        installed_entrypoint(None)


@pytest.mark.parametrize(
    ("fixed", "reason"),
    [
        ({"command": "sh -c id"}, "the job variable 'command' is set."),
        ({"working_dir": "/tmp"}, "the job variable 'working_dir' is set."),
        ({"env": {"PREFECT_API_URL": "http://evil.example"}}, "variable 'PREFECT_API_URL'"),
        ({"env": {"REGRADE_CPU_NICE": "{{ $HF_TOKEN }}"}}, r"refers to '\{\{ \$HF_TOKEN \}\}'"),
        ({"name": "{{ prefect.blocks.secret.x }}"}, "refers to '{{ prefect.blocks.secret.x }}'"),
    ],
)
def test_a_changed_pool_is_refused(fixed: dict[str, Any], reason: str):
    template = json.loads(json.dumps(ProcessWorker.get_default_base_job_template()))
    template["job_configuration"].update(fixed)
    with pytest.raises(RefusedRunError, match=reason):
        asyncio.run(ProjectJob.from_template_and_values(template, {}, client=UNUSED))


def test_the_variables_of_prefect_yaml_are_passed_on():
    template = ProcessWorker.get_default_base_job_template()
    given = {"env": {"REGRADE_CPU_NICE": "5", "DO_NOT_TRACK": "1"}, "stream_output": False}
    job = asyncio.run(ProjectJob.from_template_and_values(template, given, client=UNUSED))
    assert job.env == given["env"]
    assert job.stream_output is False


def test_models_bring_no_code_and_choose_no_credential_unless_the_machine_allows_it(
    monkeypatch: pytest.MonkeyPatch,
):
    flow_run = FlowRun(flow_id=uuid4())
    for allowed in (None, "1"):
        if allowed is not None:
            monkeypatch.setenv("REGRADE_REMOTE_CODE", allowed)
        job = ProjectJob()
        job.prepare_for_flow_run(flow_run)
        limited = limits(job.env)
        assert limited["REGRADE_REMOTE_CODE"] == (allowed or "0")
        assert limited["REGRADE_API_KEY_VARIABLES"] == "OPENAI_API_KEY"
        assert limited["REGRADE_ENGINE_SLOTS"] == "1"
        assert job.command is not None
        assert job.command.split()[1:] == ["-P", "-m", "regrade.orchestration.flow_run_process"]


def test_a_run_shows_no_variable_of_the_worker():
    template = ProcessWorker.get_default_base_job_template()
    given = {"env": {"REGRADE_CPU_NICE": "{{ $HF_TOKEN }}"}}
    with pytest.raises(RefusedRunError, match="HF_TOKEN"):
        asyncio.run(ProjectJob.from_template_and_values(template, given, client=UNUSED))


@pytest.mark.parametrize(
    ("engine", "elsewhere"),
    [
        ({"kind": "openai", "base_url": "http://x/v1"}, True),
        ({"base_url": "http://x/v1"}, True),
        ({"kind": "vllm", "dtype": "float16"}, False),
        (None, False),
    ],
)
def test_a_run_on_a_server_elsewhere_does_not_wait_for_the_engine_of_the_machine(
    engine: dict[str, str] | None, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
):
    worker = ProjectWorker(work_pool_name="gpu", limit=1)
    limited = object()
    worker._limiter = limited  # type: ignore[assignment]
    seen: dict[object, bool] = {}

    async def submitted(self: Any, entries: list[Any]) -> list[Any]:
        seen.update({entry.flow_run.id: self._limiter is limited for entry in entries})
        return entries

    monkeypatch.setattr(ProcessWorker, "_submit_scheduled_flow_runs", submitted)
    runs = [
        SimpleNamespace(flow_run=SimpleNamespace(id=name, parameters={"engine": asked}))
        for name, asked in (("first", {"kind": "vllm"}), ("second", engine))
    ]
    started = asyncio.run(worker._submit_scheduled_flow_runs(runs))  # type: ignore[arg-type]

    assert len(started) == 2
    assert seen == {"first": True, "second": not elsewhere}
    assert worker._limiter is limited


def test_a_worker_that_is_stopped_starts_no_process(monkeypatch: pytest.MonkeyPatch):
    async def run(*_: object) -> None:
        pytest.fail("a process is started")

    monkeypatch.setattr(ProcessWorker, "run", run)
    worker = ProjectWorker(work_pool_name="gpu")
    worker.stopping = True
    told: list[int] = []
    status = SimpleNamespace(started=told.append)
    result = asyncio.run(worker.run(FlowRun(flow_id=uuid4()), ProjectJob(), status))

    assert result.status_code == 0
    assert told == [0]
