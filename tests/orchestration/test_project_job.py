"""A run's process is one of the installed flows, also for someone who can write to the server; test_project_worker.py attacks a worker."""

import asyncio
from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.workers.process import ProcessWorker

from regrade.orchestration.project_job import (
    ProjectJob,
    RefusedRunError,
    installed_entrypoint,
    limits,
)
from tests.command_line import ROOT

PULL = [{"regrade.orchestration.project_job.use_installed_project": {}}]
SCORE = "flows.score_answers.score_answers"
UNUSED: Any = object()
"""Client of a server; only references to blocks need one."""


def deployment(**changes: Any) -> DeploymentResponse:
    given = {"name": "score-answers", "flow_id": uuid4(), "entrypoint": SCORE, "pull_steps": PULL}
    return DeploymentResponse.model_validate(given | changes)


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
    template = deepcopy(ProcessWorker.get_default_base_job_template())
    template["job_configuration"].update(fixed)
    with pytest.raises(RefusedRunError, match=reason):
        configured({}, template)


def configured(values: dict[str, Any], template: dict[str, Any] | None = None) -> ProjectJob:
    pool = template or ProcessWorker.get_default_base_job_template()
    return asyncio.run(ProjectJob.from_template_and_values(pool, values, client=UNUSED))


def test_the_variables_of_prefect_yaml_are_passed_on():
    given = {"env": {"REGRADE_CPU_NICE": "5", "DO_NOT_TRACK": "1"}, "stream_output": False}
    job = configured(given)
    assert job.env == given["env"]
    assert job.stream_output is False


def test_runs_bring_no_code_and_choose_no_credential_and_no_file_unless_the_machine_allows_it(
    monkeypatch: pytest.MonkeyPatch,
):
    flow_run = FlowRun(flow_id=uuid4())
    monkeypatch.delenv("REGRADE_FOLDERS")
    monkeypatch.setenv("REGRADE_HOME", "/home/me")
    monkeypatch.setenv("REGRADE_ANSWERS", "/mnt/answers")
    for allowed in (None, "1"):
        if allowed is not None:
            monkeypatch.setenv("REGRADE_REMOTE_CODE", allowed)
        job = ProjectJob()
        job.prepare_for_flow_run(flow_run)
        limited = limits(job.env)
        assert limited["REGRADE_REMOTE_CODE"] == (allowed or "0")
        assert limited["REGRADE_API_KEY_VARIABLES"] == "OPENAI_API_KEY"
        assert limited["REGRADE_ENGINE_SLOTS"] == "1"
        assert limited["REGRADE_FOLDERS"] == (
            f"/home/me/models:/home/me/data:/home/me/answers:{ROOT}/infra/demo:/mnt/answers"
        )
        assert job.command is not None
        assert job.command.split()[1:] == ["-P", "-m", "regrade.orchestration.flow_run_process"]


def test_a_run_shows_no_variable_of_the_worker():
    with pytest.raises(RefusedRunError, match="HF_TOKEN"):
        configured({"env": {"REGRADE_CPU_NICE": "{{ $HF_TOKEN }}"}})
