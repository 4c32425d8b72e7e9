"""`regrade deploy` on a real Prefect server: safe to repeat; settings changed by hand are refused."""

import hashlib
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from regrade.answers.local import LocalRepository
from regrade.cli.deploy import deploy
from regrade.orchestration.deployment.desired import read_desired
from regrade.settings.errors import SettingsError
from tests.command_line import regrade, run
from tests.prefect_fixtures import running_server
from tests.prefect_login import Login
from tests.processes.trees import wait_until
from tests.stored import numbers, publish

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
SCORE = "deployment score-answers/score-answers"


class Server:
    """A Prefect server, used through its API as the UI uses it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def deploy(self, *, force: bool = False) -> str:
        """Deploy in this process, where Prefect is imported only once, and return the output."""
        output = io.StringIO()
        with temporary_settings({PREFECT_API_URL: self.url}), redirect_stdout(output):
            deploy(force=force)
        return output.getvalue()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        def answered() -> httpx.Response | None:
            response = httpx.request(
                method, f"{self.url}{path}", json=body, auth=Login(), timeout=30
            )
            return None if response.status_code >= 500 else response  # a locked SQLite

        response = soon(answered)
        assert response.is_success, response.text
        return response.json() if response.content else None

    def deployment(self, name: str) -> Any:
        return self.call("GET", f"/deployments/name/{name}/{name}")

    def automations(self) -> dict[str, Any]:
        return {
            automation["name"]: automation
            for automation in self.call("POST", "/automations/filter", {})
        }

    def runs(self, name: str) -> list[dict[str, Any]]:
        return list(self.call("POST", "/flow_runs/filter", {"flows": {"name": {"any_": [name]}}}))


soon = partial(wait_until, seconds=90, pause=0.3)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("deploy-server")) as (url, _):
        found = Server(url)
        first = regrade("deploy", "--json", PREFECT_API_URL=url)
        assert first.code == 0, first.out + first.err
        states = {(item["kind"], item["state"]) for item in first.document["objects"]}
        assert states == {(kind, "created") for kind in ("pool", "deployment", "automation")}
        yield found


def test_deploying_again_changes_nothing_and_says_so(server: Server) -> None:
    before = server.deployment("score-answers"), server.automations()

    said = server.deploy()

    assert f"{SCORE}: unchanged" in said
    after = server.deployment("score-answers"), server.automations()
    for settings in (before[0], after[0]):
        settings.pop("updated")
    assert after == before


def test_others_may_publish_while_one_flow_generates_and_the_schedule_is_off(server: Server):
    assert server.call("GET", "/work_pools/gpu")["concurrency_limit"] == 4
    assert server.call("GET", "/work_pools/cpu")["concurrency_limit"] is None
    (schedule,) = server.deployment("score-answers")["schedules"]
    assert (schedule["slug"], schedule["active"]) == ("nightly", False)


@pytest.mark.slow
def test_default_parameters_and_what_is_switched_on_or_off_are_a_persons(server: Server) -> None:
    there = server.deployment("score-answers")
    path = f"/deployments/{there['id']}"
    server.call("PATCH", path, {"parameters": {"benchmark": "gsm8k"}})
    server.call("PATCH", f"{path}/schedules/{there['schedules'][0]['id']}", {"active": True})
    trigger = server.automations()["score published answers"]
    server.call("PATCH", f"/automations/{trigger['id']}", {"enabled": False})
    server.call("PATCH", "/work_pools/gpu", {"concurrency_limit": 2})

    for force in (False, True):
        said = server.deploy(force=force)

        assert "pool gpu: unchanged. Its limit is 2, a new pool gets 4 (`prefect work-pool" in said
        assert f"{SCORE}: unchanged" in said
        kept = server.deployment("score-answers")
        assert kept["parameters"] == {"benchmark": "gsm8k"}
        assert [schedule["active"] for schedule in kept["schedules"]] == [True]
        assert not server.automations()["score published answers"]["enabled"]
        assert server.call("GET", "/work_pools/gpu")["concurrency_limit"] == 2

    server.call("PATCH", path, {"parameters": {}})
    server.call("PATCH", f"{path}/schedules/{kept['schedules'][0]['id']}", {"active": False})
    server.call("PATCH", f"/automations/{trigger['id']}", {"enabled": True})
    server.call("PATCH", "/work_pools/gpu", {"concurrency_limit": 4})


@pytest.mark.slow
def test_what_a_person_changed_is_refused_with_the_difference_until_it_is_forced(
    server: Server,
) -> None:
    there = server.deployment("score-answers")
    path = f"/deployments/{there['id']}"
    server.call("PATCH", path, {"concurrency_limit": 3, "description": "Ours"})
    schedule = there["schedules"][0]
    daily = {"schedule": {"cron": "0 5 * * *", "timezone": "UTC"}, "active": True}
    server.call("PATCH", f"{path}/schedules/{schedule['id']}", daily)
    server.call("PATCH", "/variables/name/regrade_deployed_rescore_answers", {"value": {}})

    for _ in range(2):  # each time, not only the first
        with pytest.raises(SettingsError) as refused:
            server.deploy()

        first, *lines = str(refused.value).splitlines()
        assert "overwrite them with `--force`" in first
        name = "  score-answers/score-answers:"
        assert lines[0] == f"{name} concurrency_limit is 3, prefect.yaml has not set"
        assert lines[1].startswith(f'{name} description is "Ours", prefect.yaml has "Score stored')
        assert lines[2].startswith(f'{name} schedule nightly is {{"schedule": {{"cron": "0 5 * *')
        assert (
            len(lines) == 3
        )  # without a memory of the last deployment, equal values are no difference
        kept = server.deployment("score-answers")
        assert (kept["description"], kept["global_concurrency_limit"]["limit"]) == ("Ours", 3)

    said = server.deploy(force=True)

    assert f"{SCORE}: updated concurrency_limit, description, schedule nightly" in said
    reset = server.deployment("score-answers")
    assert (reset["description"], reset["global_concurrency_limit"]) == (there["description"], None)
    (nightly,) = reset["schedules"]
    assert (nightly["schedule"]["cron"], nightly["active"]) == ("0 3 * * *", True)
    server.call("PATCH", f"{path}/schedules/{nightly['id']}", {"active": False})


@pytest.mark.slow
def test_what_a_later_version_deploys_otherwise_is_no_change_by_hand(server: Server) -> None:
    there = server.deployment("judge-answers")
    path = f"/deployments/{there['id']}"
    server.call("PATCH", path, {"description": "Older"})
    memory = "/variables/name/regrade_deployed_judge_answers"
    deployed = server.call("GET", memory)["value"]
    older = hashlib.sha256(b'"Older"').hexdigest()[:16]
    server.call("PATCH", memory, {"value": deployed | {"description": older}})

    assert "judge-answers/judge-answers: updated description" in server.deploy()
    assert server.deployment("judge-answers")["description"] == there["description"]
    assert server.call("GET", memory)["value"] == deployed


@pytest.mark.slow
def test_a_schedule_that_a_person_added_stays(server: Server) -> None:
    there = server.deployment("rescore-answers")
    weekly = {"schedule": {"cron": "0 4 * * 0", "timezone": "UTC"}, "active": False}
    server.call("POST", f"/deployments/{there['id']}/schedules", [weekly])

    server.deploy()

    crons = [
        schedule["schedule"]["cron"]
        for schedule in server.deployment("rescore-answers")["schedules"]
    ]
    assert crons == ["0 4 * * 0"]


@pytest.mark.slow
def test_a_deployment_that_a_person_deleted_comes_back_with_all_its_settings(
    server: Server,
) -> None:
    before = server.deployment("rescore-answers")
    server.call("DELETE", f"/deployments/{before['id']}")

    server.deploy()

    after = server.deployment("rescore-answers")
    assert after["id"] != before["id"]
    for setting in ("tags", "job_variables", "parameters", "description", "work_pool_name"):
        assert after[setting] == before[setting], setting
    assert "score again with changed scorers" in server.automations()


def test_published_answers_are_scored_by_whoever_is_there(server: Server, tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    table = tmp_path / "answers.jsonl"
    rows = [
        f'{{"question": "{n}+1?", "response": "#### {n + 1}", "answer": "{n + 1}"}}'
        for n in range(3)
    ]
    table.write_text("\n".join(rows))

    imported = regrade(
        *("import", table, "--format", "table", "--answers", repository.uri, "--json"),
        *("--model", "a", "--benchmark", "b", "--column.question", "question"),
        *("--column.text", "response", "--column.target", "answer"),
        PREFECT_API_URL=server.url,
    )

    assert imported.code == 0, imported.err
    (flow_run,) = soon(lambda: server.runs("score-answers"))
    assert flow_run["parameters"] == {
        "answers": repository.uri,
        "revision": imported.document["revision"],
    }
    assert flow_run["state_type"] == "SCHEDULED"


@pytest.mark.slow
def test_a_deployment_of_a_changed_scorer_grades_what_is_stale(server: Server) -> None:
    assert server.runs("rescore-answers") == []  # the first deployment changed no scorer
    memory = server.call("GET", "/variables/name/regrade_deployed_scorers")
    older = memory["value"] | {"number": "number-0-00000000"}
    server.call("PATCH", "/variables/name/regrade_deployed_scorers", {"value": older})

    said = server.deploy()

    assert "scorer number: updated. number-0-00000000 -> number-" in said
    (flow_run,) = soon(lambda: server.runs("rescore-answers"))
    assert flow_run["parameters"]["stale"] is True
    assert "scorer number" not in server.deploy()


@pytest.mark.slow
def test_without_a_server_the_command_says_what_to_set_or_that_none_answers() -> None:
    missing = regrade("deploy")
    assert missing.code == 2
    assert "PREFECT_API_URL is not set" in missing.err

    for command in (("deploy",), ("worker", "--pool", "gpu")):
        nobody = regrade(*command, PREFECT_API_URL="http://127.0.0.1:9/api")
        assert nobody.code == 1
        assert "The Prefect server http://127.0.0.1:9/api does not answer" in nobody.err
        assert "Traceback" not in nobody.err


@pytest.mark.slow
def test_a_server_that_refuses_is_named(server: Server) -> None:
    refused = regrade("deploy", PREFECT_API_URL=f"{server.url}/nothing")
    assert refused.code == 2
    assert f"The Prefect server {server.url}/nothing refused" in refused.err
    assert "Does PREFECT_API_URL end in /api?" in refused.err


def test_a_setting_that_would_not_be_deployed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prefect.yaml"
    file.write_text("deployments: [{name: evaluate, retries: 3}]")
    with pytest.raises(
        SettingsError, match="'evaluate' has \\['retries'\\], which is not deployed"
    ):
        read_desired(file)


@pytest.mark.slow
def test_scoring_what_was_published_starts_no_further_scoring(
    server: Server, tmp_path: Path
) -> None:
    from regrade.orchestration.events import answers_published

    repository = LocalRepository(tmp_path / "answers")
    answers = publish(repository, numbers(0, 3))
    earlier = {known["id"] for known in server.runs("score-answers")}
    with temporary_settings({PREFECT_API_URL: server.url}):
        answers_published([answers])

    def new() -> list[dict[str, Any]]:
        return [run for run in server.runs("score-answers") if run["id"] not in earlier]

    (flow_run,) = soon(new)
    assert flow_run["parameters"]["revision"] == answers.revision
    environment = {"PREFECT_API_URL": server.url, "PREFECT_HOME": str(tmp_path / "prefect")}
    executed = run(
        [sys.executable, "-m", "prefect", "flow-run", "execute", flow_run["id"]],
        200,
        {**environment, "PATH": os.environ["PATH"]},
    )
    assert executed.code == 0, executed.out + executed.err
    (done,) = new()
    assert done["state_type"] == "COMPLETED", done["state"]
    assert repository.head() != answers.revision  # the scores are there
    time.sleep(15)  # the answers' own event took less than that
    assert len(new()) == 1
