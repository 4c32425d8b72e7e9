"""A worker runs nothing but the installed flows, and shares one engine between them; it starts nothing when it is stopped."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.workers.process import ProcessWorker
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_fixed

from regrade.orchestration.project_job import ProjectJob
from regrade.orchestration.project_worker import ProjectWorker
from tests.command_line import regrade
from tests.orchestration.test_project_job import PULL, SCORE
from tests.prefect_login import Login


@pytest.mark.prefect
@pytest.mark.timeout(400)
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

        # What a run that reads a stranger's dataset leaves in the Hub's cache, and a later one names as a folder of tasks.
        stranger = tmp_path / "hf" / "hub" / "datasets--evil--y"
        stranger.mkdir(parents=True)
        (stranger / ".huggingface.yaml").write_text(
            "task: evil\ndataset_path: json\noutput_type: generate_until\n"
            "metric_list: [{metric: !function subprocess.call}]\n"
        )
        code = tmp_path / "data" / "own.py"
        code.parent.mkdir()
        code.write_text(f"import pathlib\npathlib.Path({str(proof)!r}).touch()\ndef own(): ...\n")
        dataset = {"name": "own", "path": "org/name"}

        def generate(name: str, **parameters: Any) -> str:
            given = {"model": "org/name", "engine": {"kind": "openai"}, **parameters}
            entrypoint = "flows.generate_answers.generate_answers"
            return start(name, {"parameters": given}, entrypoint=entrypoint)

        def harness(name: str, **parameters: Any) -> str:
            given = {"parameters": {"model": "org/name", **parameters}}
            return start(name, given, entrypoint="flows.run_harness.run_harness")

        command = ["sh", "-c", shell, "{output}"]
        evil = {"env": {"PYTHONPATH": str(tmp_path)}}
        foreign = {
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
        wrong = {
            generate("task", lm_eval={"tasks": ["evil"], "path": str(stranger)}): (
                "`lm_eval.path`: '"
            ),
            generate(
                "scorer", datasets=[{**dataset, "scorer": f"{code}:own"}]
            ): "is not installed on this worker",
            generate("called", datasets=[{**dataset, "scorer": f"{code}:own(last=true)"}]): (
                "is not installed on this worker"
            ),
            harness("program", arguments=command): "`arguments`: 'a program' is not installed",
            harness("known", harness="inspect", arguments=["x.py"]): "`arguments`: 'a program' is",
        }
        ended = regrade(
            *("worker", "--pool", pool, "--run-once"),
            process=True,
            PREFECT_API_URL=prefect_server,
            HF_HOME=str(tmp_path / "hf"),
            REGRADE_FOLDERS=str(tmp_path / "data"),
        )
        assert ended.code == 0, ended.out + ended.err
        for state, runs in (("CRASHED", foreign), ("FAILED", wrong)):
            for flow_run, reason in runs.items():
                found = api.get(f"/flow_runs/{flow_run}").json()
                assert found["state_type"] == state, (reason, found["state"], ended.err)
                assert reason in found["state"]["message"]
    assert not proof.exists()
    assert 'File "' not in ended.err.partition("Starting flow run process")[0]


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
