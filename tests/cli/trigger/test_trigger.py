"""`regrade trigger` against a real Prefect server, with a process that runs the deployments."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from regrade.answers.local import LocalRepository
from regrade.cli.main import run
from regrade.orchestration.artifacts import PLAN_KEY, SWEEP_KEY, TUNING_KEY
from tests.cli.trigger.helpers import Reply, between, read_run, trigger, wait_for
from tests.command_line import ROOT
from tests.crash.harness import restore_sigint
from tests.prefect_login import Login
from tests.server_process import free_port
from tests.stored import numbers, publish

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


def test_a_run_is_followed_and_its_numbers_come_home(served: str, tmp_path: Path) -> None:
    answers = publish(LocalRepository(tmp_path / "answers"), numbers(0, 4))
    page = tmp_path / "report.md"

    ran = trigger(
        served,
        "score-here",
        *("--answers", answers.repository.uri, "--benchmark", "sums", "--wait", "--json"),
        *("--markdown", page),
    )

    assert ran.code == 0, ran.err
    assert ran.document["flow_run"]["state"] == "COMPLETED"
    (metrics,) = ran.document["metrics"]
    assert (metrics["benchmark"], metrics["accuracy"], metrics["n"]) == ("sums", 1.0, 4)
    assert ran.document["url"] in ran.err  # to click while it runs
    assert "number 100.00 % of 4" in ran.err  # the flow's own log
    assert "Completed" in ran.err
    assert "| sums |" in page.read_text()
    assert "data:image" not in page.read_text()
    parameters = read_run(served, ran.document["flow_run"]["id"])["parameters"]
    assert parameters["benchmark"] == "sums"


@pytest.mark.parametrize(
    "key",
    [SWEEP_KEY, *(pytest.param(key, marks=pytest.mark.slow) for key in (TUNING_KEY, PLAN_KEY))],
)
def test_the_page_of_a_sweep_a_search_or_a_plan_comes_home(served: str, key: str) -> None:
    ran = trigger(served, "stand-in", "--model", "small", "--param", f"page={key}", "--wait")

    assert ran.code == 0, ran.err
    assert f"| the {key} |" in ran.out
    assert "data:image" not in ran.out


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("regression", 1),
        pytest.param("pass", 0, marks=pytest.mark.slow),
        pytest.param("cannot tell", 2, marks=pytest.mark.slow),
    ],
)
def test_the_exit_code_is_the_verdict(served: str, tmp_path: Path, verdict: str, code: int) -> None:
    summary, junit = tmp_path / "summary.md", tmp_path / "junit.xml"

    ran = trigger(
        served,
        "stand-in",
        *("--model", "org/new", "--baseline", "org/old", "--max-drop", "0.5", "--json"),
        *("--param", f"verdict={verdict}", "--wait", "--junit", junit),
        GITHUB_STEP_SUMMARY=str(summary),
    )

    assert ran.code == code, ran.err
    assert ran.document["exit_code"] == code
    assert ran.document["gate"]["base"] == "org/old"
    assert ran.document["gate"]["benchmarks"][0]["max_drop"] == 0.005
    assert ran.document["url"] in summary.read_text()
    assert verdict in summary.read_text()
    assert "5 of 10 answers" in ran.err
    failures = ElementTree.parse(junit).getroot().iter("failure")
    assert len(list(failures)) == (code == 1)


def test_a_first_run_that_creates_the_baseline_has_passed(served: str, tmp_path: Path) -> None:
    junit, page = tmp_path / "junit.xml", tmp_path / "report.md"
    created = "baseline created: alias baseline names org/new now"

    ran = trigger(
        served,
        *("stand-in", "--model", "org/new", "--promote", "--param", f"created={created}"),
        *("--wait", "--json", "--junit", junit, "--markdown", page),
    )

    assert ran.code == 0, ran.err
    assert ran.document["baseline_created"] == created
    assert created in ran.err
    assert created in page.read_text()
    assert list(ElementTree.parse(junit).getroot().iter("error")) == []


def test_a_folder_of_the_job_is_named_as_its_workers_see_it(served: str) -> None:
    ran = trigger(served, "stand-in", "--model", "./checkpoint-500", "--json")

    assert ran.code == 0, ran.err
    parameters = read_run(served, ran.document["flow_run"]["id"])["parameters"]
    assert parameters["model"] == str(ROOT / "checkpoint-500")


def test_a_run_is_told_to_stop_when_its_verdict_is_sure(served: str) -> None:
    gate = ("--baseline", "org/old", "--max-drop", "1", "--stop-when-sure")

    ran = trigger(served, "stand-in", "--model", "org/new", *gate, "--json")

    assert ran.code == 0, ran.err
    parameters = read_run(served, ran.document["flow_run"]["id"])["parameters"]
    assert parameters["gate"] == {"baseline": "org/old", "max_drop": 1.0, "stop_when_sure": True}


@pytest.mark.slow
def test_a_run_that_fails_is_no_verdict(served: str, tmp_path: Path) -> None:
    junit, page = tmp_path / "junit.xml", tmp_path / "report.md"

    ran = trigger(
        served,
        "stand-in",
        *("--model", "m", "--param", "problem=out of <memory>", "--wait"),
        *("--junit", junit, "--markdown", page),
    )

    assert ran.code == 3, ran.err
    assert "out of <memory>" in ran.err
    (error,) = ElementTree.parse(junit).getroot().iter("error")
    assert "out of <memory>" in str(error.get("message"))
    assert "could not be run" in page.read_text()


@pytest.mark.slow
def test_a_gate_without_a_verdict_did_not_pass(served: str) -> None:
    ran = trigger(served, "stand-in", "--model", "m", "--baseline", "b", "--wait")

    assert ran.code == 3, ran.err
    assert "wrote no verdict" in ran.err


@pytest.mark.slow
def test_a_quiet_run_is_its_exit_code(served: str) -> None:
    ran = trigger(served, "stand-in", "--model", "m", "--wait", "--quiet")

    assert (ran.code, ran.out, ran.err) == (0, "", "")


@contextmanager
def started(url: str, id_file: Path, seconds: int) -> "Iterator[subprocess.Popen[str]]":
    """A process that follows a run of some seconds; it is killed at the end of the block."""
    command = [sys.executable, "-m", "regrade.cli.main", "trigger", "stand-in", "--model", "m"]
    process = subprocess.Popen(
        [*command, "--wait", "--param", f"seconds={seconds}", "--id-file", str(id_file)],
        cwd=ROOT,
        env={**os.environ, "PREFECT_API_URL": url},
        preexec_fn=restore_sigint,  # noqa: PLW1509 - async-signal-safe
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_cancelled_job_cancels_its_run(
    served: str, tmp_path: Path, number: signal.Signals
) -> None:
    id_file = tmp_path / "id"
    with started(served, id_file, seconds=200) as process:
        flow_run_id = wait_for(lambda: id_file.exists() and id_file.read_text().strip())
        wait_for(
            lambda: read_run(served, flow_run_id)["state_type"] == "RUNNING",
            lambda: read_run(served, flow_run_id)["state"],
        )
        process.send_signal(number)
        process.send_signal(number)  # CI sends several
        _, said = process.communicate(timeout=60)

    assert process.returncode == 128 + number, said
    assert "cancelling" in said
    assert "Traceback" not in said
    wait_for(lambda: read_run(served, flow_run_id)["state_type"] == "CANCELLED")


@pytest.mark.slow
def test_a_run_that_nobody_takes_is_cancelled(served: str) -> None:
    flows = httpx.post(
        f"{served}/flows/filter", json={"flows": {"name": {"any_": ["stand-in"]}}}, auth=Login()
    )
    lonely = {"name": "nobody-runs-it", "flow_id": flows.json()[0]["id"]}
    httpx.post(f"{served}/deployments/", json=lonely, auth=Login()).raise_for_status()

    ran = trigger(served, "nobody-runs-it", "--wait", "--start-timeout", "3", "--json")

    assert ran.code == 5, ran.err
    assert "no worker took it in 3 s" in ran.err
    assert read_run(served, ran.document["flow_run"]["id"])["state_type"] == "CANCELLED"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["stand-inn", "--model", "m"], "It has: "),
        (["stand-in", "--param", "modle=m"], "Did you mean 'model'?"),
        (["stand-in", "--model", "m", "--param", "seconds=long"], "is not of type 'number'"),
        (["stand-in", "--no-such-option"], "no-such-option"),
    ],
)
def test_what_cannot_be_run_is_no_verdict(
    served: str, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    with temporary_settings({PREFECT_API_URL: served}):
        code = run(["trigger", *arguments])

    assert code == 3
    shown = capsys.readouterr()
    assert expected in " ".join((shown.out + shown.err).split())


@pytest.mark.slow
def test_a_server_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}/api"

    with temporary_settings({PREFECT_API_URL: url}):
        code = run(["trigger", "evaluate-model", "--model", "m", "--patience", "3"])

    assert code == 3
    assert f"The Prefect server {url} did not answer for 3 s" in capsys.readouterr().err


def test_without_a_server_nothing_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    for url in (None, ""):  # CI has "" for a secret that is missing
        with temporary_settings({PREFECT_API_URL: url}):
            assert run(["trigger", "evaluate-model", "--model", "m"]) == 3
        assert "PREFECT_API_URL is not set" in capsys.readouterr().err


@pytest.mark.slow
def test_a_request_whose_answer_was_lost_starts_no_second_run(served: str) -> None:
    model = f"lost-{time.time_ns()}"

    lost: list[Reply] = []

    def lose_the_first(path: str, ask: Callable[[], Reply]) -> Reply:
        answer = ask()
        if path.endswith("/create_flow_run") and not lost:
            lost.append(answer)
            return Reply(500)
        return answer

    with between(lose_the_first, served) as (url, seen):
        ran = trigger(url, "stand-in", "--model", model, "--json")

    assert ran.code == 0, ran.err
    assert sum(path.endswith("/create_flow_run") for path in seen) == 2
    found = httpx.post(
        f"{served}/flow_runs/filter",
        json={"flows": {"name": {"any_": ["stand-in"]}}},
        auth=Login(),
        timeout=30,
    ).json()
    (only,) = [run for run in found if run["parameters"].get("model") == model]
    assert only["id"] == ran.document["flow_run"]["id"]


@pytest.mark.slow
def test_a_server_that_is_away_for_a_while_does_no_harm(served: str, tmp_path: Path) -> None:
    id_file, away = tmp_path / "id", threading.Event()
    with (
        between(lambda _, ask: None if away.is_set() else ask(), served) as (url, _),
        started(url, id_file, seconds=5) as process,
    ):
        flow_run_id = wait_for(lambda: id_file.exists() and id_file.read_text().strip())
        away.set()
        wait_for(lambda: read_run(served, flow_run_id)["state_type"] == "COMPLETED")
        time.sleep(15)  # longer than the client's own tries
        assert process.poll() is None
        away.clear()
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "does not answer; retrying for" in said
    assert "5 of 10 answers" in said  # what happened meanwhile is told
