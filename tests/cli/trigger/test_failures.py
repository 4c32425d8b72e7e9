"""`regrade trigger` if a login is missing, something else answers, or a file cannot be written."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from regrade.cli.checking import check_given
from regrade.cli.main import run
from regrade.jobs.job import EvaluationJob
from tests.cli.trigger.helpers import Reply, between, read_run, trigger
from tests.server_process import free_port

LOGIN_PAGE = Reply(200, b"<html><form>Log in</form></html>", "text/html; charset=utf-8")
EVALUATE = ("trigger", "evaluate-model", "--model", "m", "--wait", "--patience", "30")


def asked(reply: Reply, *words: str, login: str | None = None) -> tuple[int, str, list[str]]:
    """Run a command whose server replies this to everything; return its code, the address, and the paths that were asked."""
    with (
        between(lambda *_: reply) as (url, seen),
        temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: login}),
    ):
        return run([*words]), url, seen


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(401), "refused the login (401). Set PREFECT_API_AUTH_STRING to `user:password`"),
        pytest.param(
            Reply(403, b"no", "text/plain"),
            "refused the login (403). Set PREFECT_API_AUTH_STRING",
            marks=pytest.mark.slow,
        ),
        (Reply(403, b'{"detail": "Not for you."}'), "refused the login (403: Not for you.)."),
        (LOGIN_PAGE, "is not a Prefect API: it answered 200 with text/html."),
        (
            Reply(302, b"", location="https://sso.example/login?state=secret"),
            "redirects to https://sso.example/login. If that is a login page: Set PREFECT_API",
        ),
        pytest.param(
            Reply(404, b"no such page", "text/plain"),
            "Does PREFECT_API_URL end in /api?",
            marks=pytest.mark.slow,
        ),
        (Reply(405, b'{"detail": "Method Not Allowed"}'), "answered 405 to"),
    ],
    ids=lambda value: value.status if isinstance(value, Reply) else "",
)
def test_what_is_no_prefect_api_is_one_line_that_names_what_to_set_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reply: Reply, expected: str
) -> None:
    page, junit = tmp_path / "new" / "report.md", tmp_path / "report.xml"

    code, url, seen = asked(reply, *EVALUATE, "--markdown", str(page), "--junit", str(junit))

    assert code == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
    assert url in line
    assert "secret" not in line
    assert len(seen) <= 2  # not repeated for the whole patience
    assert "evaluate-model could not be run" in page.read_text()
    (error,) = ElementTree.parse(junit).getroot().iter("error")
    assert expected in str(error.get("message"))


@pytest.mark.parametrize("url", ["http://me:hunter2@127.0.0.1:{}/api", "me:hunter2@host/api"])
def test_a_password_in_the_address_is_not_shown(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    with temporary_settings({PREFECT_API_URL: url.format(free_port())}):
        code = run(["trigger", "evaluate-model", "--patience", "1"])

    said = capsys.readouterr().err
    assert code == 3
    assert "127.0.0.1" in said or "host/api" in said
    assert "hunter2" not in said


@pytest.mark.parametrize("command", [("deploy",), ("worker", "--pool", "gpu")])
def test_deploying_or_working_without_the_login_is_one_line(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert asked(Reply(401), *command)[0] == 2
    assert "Set PREFECT_API_AUTH_STRING to `user:password`" in capsys.readouterr().err


def test_a_login_that_is_not_accepted_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, *_ = asked(Reply(401), *EVALUATE, login="me:hunter2")

    said = capsys.readouterr().err
    assert code == 3
    assert "PREFECT_API_AUTH_STRING is set, but it is not accepted" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "url", ["prefect.example:4200/api", "ftp://prefect.example", "http:///api"]
)
def test_an_address_that_is_none_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    with temporary_settings({PREFECT_API_URL: url}):
        code = run([*EVALUATE])

    assert code == 3
    assert f"PREFECT_API_URL='{url}' is no address" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--markdown", "--junit", "--id-file"])
def test_a_file_that_cannot_be_written_is_noticed_before_a_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "report"

    code, _, seen = asked(Reply(500), *EVALUATE, option, str(path))

    assert code == 3
    assert f"'{path}' cannot be written" in capsys.readouterr().err
    assert seen == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("--patience -1", "`--patience` should be 0 or more, not -1."),
        ("--timeout nan", "`--timeout` should be 0 or more, not nan."),
        ("--start-timeout=-0.5", "`--start-timeout` should be 0 or more, not -0.5."),
        ("--param foo", "`--param foo` should be `name=value`, such as 'limit=100'."),
        ("--limit 0", "`--limit` should be 1 or more, not 0."),
        (
            "--temperature 3 --benchmark of_the_worker",
            "`--temperature` should be 2 or less, not 3.",
        ),
        ("--baseline org/model --promote", "`--promote` moves an alias, and 'org/model' cannot be"),
    ],
)
def test_what_no_deployment_takes_is_refused_before_a_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, says: str
) -> None:
    junit = tmp_path / "report.xml"

    code, _, seen = asked(Reply(500), *EVALUATE[:5], *given.split(), "--junit", str(junit))

    assert code == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"regrade: {says}")
    assert seen == []
    (error,) = ElementTree.parse(junit).getroot().iter("error")
    assert says.split()[1] in str(error.get("message"))


@pytest.mark.parametrize(
    "given",
    [
        {"limit": 5, "stale": True},
        {"model": "m"},
        {"model": "m", "shots": [{"benchmark": "mmlu", "n_shots": 5}]},
        {"model": "m", "benchmarks": ["of_the_worker"], "scorer": "of_the_worker"},
    ],
)
def test_what_a_deployment_adds_or_only_a_worker_has_is_left_to_them(given: dict[str, Any]) -> None:
    check_given(EvaluationJob, given)


def test_reports_are_refused_without_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["trigger", "evaluate-model", "--markdown", "report.md"])

    assert code == 3
    assert "add `--wait`" in capsys.readouterr().err


@pytest.mark.prefect
def test_a_run_whose_id_cannot_be_written_is_cancelled(served: str, tmp_path: Path) -> None:
    model = tmp_path.name + "-full"

    ran = trigger(
        served,
        *("stand-in", "--model", model, "--param", "seconds=200"),
        *("--id-file", "/dev/full"),  # opens, and has no space
    )

    assert ran.code == 3, ran.err
    assert "'/dev/full' cannot be written: No space left on device" in ran.err
    assert _run_of(served, ran.err)["state_type"] in ("CANCELLED", "CANCELLING")


@pytest.mark.prefect
def test_a_run_that_cannot_be_followed_is_cancelled_and_reported(
    served: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.md"

    def no_logs(path: str, ask: Callable[[], Reply]) -> Reply:
        return LOGIN_PAGE if path.endswith("/logs/filter") else ask()

    with between(no_logs, served) as (url, _):
        ran = trigger(
            url,
            *("stand-in", "--model", "m", "--param", "seconds=200", "--wait"),
            *("--markdown", page),
        )

    assert ran.code == 3, ran.err
    assert "failed: cancelling" in ran.err
    found = _run_of(served, ran.err)
    assert found["state_type"] in ("CANCELLED", "CANCELLING")
    assert found["id"] in page.read_text()
    assert "is not a Prefect API" in page.read_text()


@pytest.mark.prefect
def test_a_run_that_cannot_be_cancelled_is_named_with_the_command_that_does(
    served: str, tmp_path: Path
) -> None:
    started = threading.Event()

    def log_out(path: str, ask: Callable[[], Reply]) -> Reply:
        answer = Reply(401) if started.is_set() else ask()
        if path.endswith("/create_flow_run") and answer.status < 300:  # else the client asks again
            started.set()
        return answer

    with between(log_out, served) as (url, _):
        ran = trigger(url, "stand-in", "--model", "m", "--wait")

    assert ran.code == 3, ran.err
    found = _run_of(served, ran.err)
    assert f"may go on: `prefect flow-run cancel {found['id']}` cancels it" in ran.err
    assert "refused the login (401)" in ran.err
    assert "Traceback" not in ran.err


def _run_of(url: str, said: str) -> dict[str, object]:
    """Flow run whose page is in the log."""
    (line,) = [line for line in said.splitlines() if "started " in line]
    return read_run(url, line.rsplit("/", 1)[1])
