"""The temporary Prefect server: one that does not start, and who may use it."""

import logging
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

from regrade.answers.local import LocalRepository
from regrade.orchestration import server
from regrade.orchestration.optional import optional
from regrade.orchestration.server import protection
from regrade.settings.errors import OperationError, SettingsError
from tests.builders import row
from tests.command_line import DEMO, regrade
from tests.prefect_login import LOGIN, Login
from tests.processes.trees import living, wait_until
from tests.stored import publish


@pytest.mark.prefect
@pytest.mark.slow
def test_a_temporary_server_that_does_not_start_is_named_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    logs = tmp_path / "logs"
    nowhere = f"sqlite+aiosqlite:///{tmp_path}/no/such/folder/prefect.db"
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", nowhere)
    monkeypatch.setenv("REGRADE_LOGS", str(logs))

    questions = tmp_path / "sums.jsonl"
    questions.write_text('{"question": "1+1", "answer": "2"}\n')
    dataset = ("--dataset.name", "sums", "--dataset.path", questions)
    words = ("generate", "--model", DEMO / "regrade-demo", *dataset)
    ran = regrade(*words, "--answers", tmp_path / "answers", process=True)

    assert ran.code == 1, ran.err
    assert "The temporary Prefect server ended while it was starting" in ran.err
    assert "set PREFECT_API_URL" in ran.err
    assert "Traceback" not in ran.err
    (log,) = logs.glob("regrade-*.log")  # beside that of the engine, which begins meanwhile
    assert str(log) in ran.err
    assert "unable to open database file" in log.read_text()


@pytest.mark.parametrize("status", [401, 500])
def test_the_password_in_the_address_of_the_server_is_in_no_error(status: int) -> None:
    url = "http://ann:s3cret@prefect.test/api"
    response = httpx.Response(status, request=httpx.Request("GET", f"{url}/flows/"))

    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(OperationError) as caught:
        server.flow_result(response.raise_for_status, {})

    assert "http://prefect.test/api" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_what_a_run_can_do_without_is_told_without_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = httpx.Request("GET", "http://ann:s3cret@prefect.test/api")
    with optional(logging.getLogger("regrade"), "no page"):
        httpx.Response(500, request=request).raise_for_status()

    assert "no page (Server error '500" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_command_takes_the_server_that_was_imported_beside_its_checks_and_there_is_none_if_one_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    deaf = ["sh", "-c", "trap '' TERM; sleep 60"]
    monkeypatch.setattr(server, "server_command", lambda *_, **__: deaf)
    server.begin_server()
    begun = server.begun_server()
    assert begun is not None
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), begun.ended_by_error():
        raise KeyboardInterrupt
    assert time.monotonic() - started < server.GRACE, "a refusal does not wait for its end"
    assert not begun.log.exists(), "nothing was said"
    wait_until(lambda: living([begun._process.pid]) == [])
    assert server.begun_server() is None
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    server.begin_server()
    assert server.begun_server() is None


def test_the_folder_of_prefect_is_made_or_its_name_is_in_the_error(tmp_path: Path):
    home, file = tmp_path / "not" / "there", tmp_path / "file"
    file.touch()

    with temporary_settings({PREFECT_HOME: home}):
        server.make_home()
    assert home.is_dir()
    with (
        temporary_settings({PREFECT_HOME: file / "home"}),
        pytest.raises(SettingsError, match=f"PREFECT_HOME '{file}/home' cannot be created"),
    ):
        server.make_home()


@pytest.mark.prefect
def test_a_server_of_ours_answers_no_other_page_no_other_host_and_nobody_without_the_login(
    prefect_server: str,
):
    """The server of the session starts like that of `make stack` and like the temporary server of a command."""
    own = prefect_server.removesuffix("/api")
    flow = f"hostile-{uuid4()}"

    def created(**asked: Any) -> httpx.Response:
        return httpx.post(f"{prefect_server}/flows/", json={"name": flow}, timeout=60, **asked)

    page = created(headers={"Origin": "http://127.0.0.1:8888"}, auth=Login())
    assert (page.status_code, "may not use this server" in page.text) == (403, True)
    preflight = httpx.options(
        f"{prefect_server}/flows/",
        headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert preflight.status_code == 403
    rebound = created(headers={"Host": "evil.example"}, auth=Login())
    assert (rebound.status_code, "does not answer for the host" in rebound.text) == (403, True)
    forged = created(auth=httpx.BasicAuth(*LOGIN.split(":")))
    assert (forged.status_code, forged.json()["detail"]) == (403, "Missing CSRF token.")
    token = httpx.get(f"{prefect_server}/csrf-token", params={"client": "a stranger"})
    assert token.status_code == 401
    assert httpx.get(f"{prefect_server}/health").json() is True

    missing = httpx.get(f"{prefect_server}/flows/name/{flow}", auth=Login())
    assert missing.status_code == 404
    assert created(headers={"Origin": own}, auth=Login()).status_code == 201


def test_each_temporary_server_has_a_login_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    started: list[tuple[list[str], dict[str, str]]] = []

    def note(command: list[str], _log: Path, environment: dict[str, str], **_: object) -> None:
        started.append((command, environment))

    monkeypatch.setattr(server, "SupervisedProcess", note)
    servers = [server.TemporaryServer(tmp_path / "log") for _ in range(2)]
    for temporary in servers:
        temporary.start()
    logins = [temporary.login for temporary in servers]
    assert logins[0] != logins[1]
    for login, (command, environment) in zip(logins, started, strict=True):
        assert login not in " ".join(command)
        assert (
            environment.items()
            >= protection(int(command[command.index("--port") + 1]), login).items()
        )


@pytest.mark.prefect
def test_a_temporary_server_opens_no_port_and_makes_no_file_before_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A command checks its input while the server is imported: nothing may have started if it is refused."""
    home, log = tmp_path / "home", tmp_path / "log"
    monkeypatch.setenv("PREFECT_HOME", str(home))
    temporary = server.TemporaryServer(log)
    supervisor = psutil.Process(temporary._process.pid)

    def has_imported() -> bool:
        before = _cpu_seconds(supervisor)
        time.sleep(0.5)
        return before > 1 and _cpu_seconds(supervisor) == before

    with pytest.raises(KeyboardInterrupt), temporary.ended_by_error():
        wait_until(has_imported)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{temporary.api_url}/health")
        assert list(home.glob("*")) == []
        temporary.wait()
        assert list(home.glob("*")) != []
        raise KeyboardInterrupt
    assert not log.exists(), "nothing was said"


def _cpu_seconds(supervisor: psutil.Process) -> float:
    return sum(p.cpu_times().user for p in supervisor.children())


@pytest.mark.prefect
def test_a_temporary_server_has_the_routes_of_runs_and_leaves_out_those_of_workers_and_pages(
    tmp_path: Path,
):
    temporary = server.TemporaryServer(tmp_path / "log")
    with pytest.raises(KeyboardInterrupt), temporary.ended_by_error():
        temporary.wait()
        login = httpx.BasicAuth(*temporary.login.split(":"))
        with httpx.Client(base_url=temporary.api_url, auth=login) as client:
            token = client.get("/csrf-token", params={"client": "a test"}).json()["token"]
            client.headers.update({"Prefect-Csrf-Client": "a test", "Prefect-Csrf-Token": token})
            found = {
                name: client.post(f"/{name}/filter", json={}).status_code
                for name in ("flows", "flow_runs", "logs", "artifacts", "work_pools", "automations")
            }
        raise KeyboardInterrupt
    assert found == {
        **dict.fromkeys(["flows", "flow_runs", "logs", "artifacts"], 200),
        **dict.fromkeys(["work_pools", "automations"], 404),
    }


@pytest.mark.prefect
@pytest.mark.parametrize("command", [["deploy"], ["score", "--answers"]])
@pytest.mark.slow
def test_a_server_that_wants_another_login_is_named_with_the_variable(
    prefect_server: str, tmp_path: Path, command: list[str]
):
    answers = []
    if command != ["deploy"]:
        publish(LocalRepository(tmp_path / "answers"), [row(0, "5")])
        answers = [tmp_path / "answers"]
    login = {"PREFECT_API_URL": prefect_server, "PREFECT_API_AUTH_STRING": "a:wrong one"}
    ran = regrade(*command, *answers, process=True, **login)
    assert ran.code in (1, 2), ran.err
    assert "401" in ran.err
    assert "PREFECT_API_AUTH_STRING" in ran.err
    assert "Traceback" not in ran.err
