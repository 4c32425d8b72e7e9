"""Errors and process handling of `make stack`, without starting a stack."""

import errno
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from infra.stack import logs, parts, postgres, prometheus
from infra.stack.__main__ import RESTARTS, _Running, main
from infra.stack.layout import Layout, StackError
from infra.stack.processes import Known, end, known, read_state, start, write_state
from regrade.processes.metrics_endpoint import PORT_VARIABLE
from tests.command_line import run
from tests.infra.running_stack import living, wait_until


def sleeper(tmp_path: Path, *, stubborn: bool = False) -> Known:
    """A process with a child, in a new session."""
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if stubborn else ""
    code = f"import signal, subprocess, time; {ignore}subprocess.Popen(['sleep', '600']); time.sleep(600)"
    log = tmp_path / "sleeper.log"
    part = start("sleeper", [sys.executable, "-c", code], os.environ, log)
    process = part.process()
    assert process is not None
    wait_until(lambda: len(process.children()) == 1, 30, "it starts no child")
    return part


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_process_is_ended_with_all_that_it_started(tmp_path: Path, stubborn: bool):
    part = sleeper(tmp_path, stubborn=stubborn)
    process = part.process()
    assert process is not None
    tree = [process, *process.children()]
    end(part, signal.SIGTERM, 1)
    assert not living(tree)
    assert part.process() is None


def test_a_process_that_got_the_id_of_a_dead_one_is_left_alone(tmp_path: Path):
    part = sleeper(tmp_path)
    end(replace(part, started=part.started - 100), signal.SIGKILL, 1)
    assert part.process() is not None
    end(part, signal.SIGKILL, 5)


def test_what_runs_is_remembered_in_the_order_of_its_start(place: Layout):
    ourselves = known("supervisor", os.getpid(), place.logs / "stack.log")
    started = [replace(ourselves, name=name) for name in ("postgres", "prefect", "mlflow")]
    write_state(place.state, ourselves, started)
    assert read_state(place.state) == (ourselves, started)


def test_a_part_that_ends_again_and_again_stops_the_stack_with_its_last_words_but_a_full_disk_does_not(
    place: Layout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(logs, "tidy", full)
    running = _Running(place)
    dying = [sys.executable, "-c", "print('no disk left')"]
    running.start(parts.Part("short", dying, dict(os.environ), lambda: True))
    with pytest.raises(StackError, match=r"(?s)short ended unexpectedly.*no disk left"):
        running.watch()
    said = capsys.readouterr().out
    assert said.count("restarting it") == RESTARTS
    assert said.count("the logs are not tidied: [Errno 28] No space left on device") == 1


def test_a_port_that_is_taken_is_named(
    place: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("REGRADE_POSTGRES_PORT", str(other.getsockname()[1]))
        assert main(["up"]) == 1
        assert f"Port {other.getsockname()[1]}" in capsys.readouterr().err
    assert not place.cluster.exists()


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("REGRADE_MLFLOW_PORT", "5OOO", "REGRADE_MLFLOW_PORT is '5OOO', expected a port"),
        (PORT_VARIABLE, "many", f"{PORT_VARIABLE}=many should be a port"),
    ],
)
def test_a_port_that_is_none_is_named_before_anything_starts(
    place: Layout,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    problem: str,
):
    monkeypatch.setenv(variable, value)
    assert main(["up"]) == 1
    assert problem in capsys.readouterr().err
    assert not place.cluster.exists()


def test_an_unknown_command_is_bad_usage():
    assert main(["go"]) == 2


def test_a_stack_that_does_not_run_is_not_stopped(
    place: Layout, capsys: pytest.CaptureFixture[str]
):
    assert main(["down"]) == 0
    assert "is not running" in capsys.readouterr().out


def test_passwords_are_made_once_and_only_we_can_read_them(place: Layout):
    first = postgres.passwords(place)
    assert postgres.passwords(place) == first
    assert len(set(first.values())) == 3
    assert place.passwords.stat().st_mode & 0o777 == 0o600


def test_no_part_gets_a_password_and_only_the_servers_get_the_file(
    place: Layout, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres, "binaries", lambda _: Path("/usr/bin"))
    monkeypatch.setenv("PGPASSWORD", "a password of another database")
    secrets = {*postgres.passwords(place).values(), "a password of another database"}
    for part in [parts.database(place), *parts.servers(place), *parts.workers(place)]:
        told = [*part.command, *part.environment.values()]
        assert not [text for text in told if any(secret in text for secret in secrets)]
        assert ("PGPASSFILE" in part.environment) == (part.name in {"prefect", "mlflow"})


def test_prometheus_is_a_part_if_its_program_is_there(
    place: Layout, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(prometheus, "program", lambda: None)
    assert parts.monitoring(place) == []
    assert PORT_VARIABLE not in parts.workers(place)[0].environment

    monkeypatch.setattr(prometheus, "program", lambda: Path("/usr/bin/prometheus"))
    (part,) = parts.monitoring(place)
    assert f"--web.listen-address=127.0.0.1:{place.prometheus_port}" in part.command
    gpu, cpu = parts.workers(place)
    assert gpu.environment[PORT_VARIABLE] == prometheus.RUN_PORTS
    assert PORT_VARIABLE not in cpu.environment
    assert parts.monitoring(replace(place, prometheus_port=None)) == []


def test_another_server_of_the_caller_is_not_used(place: Layout, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://elsewhere:4200/api")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere:5000")
    for part in parts.workers(place):
        assert part.environment["PREFECT_API_URL"] == f"{place.prefect_url}/api"
        assert part.environment["MLFLOW_TRACKING_URI"] == place.mlflow_url
    for server in parts.servers(place):
        assert "PREFECT_API_URL" not in server.environment
        assert "MLFLOW_TRACKING_URI" not in server.environment


def test_the_command_answers_status_as_a_process(place: Layout):
    asked = run([sys.executable, "-m", "infra.stack", "status"], 60, {})
    assert asked.code == 1
    assert asked.out.startswith("the stack is not running\n")


def test_the_viewer_knows_neither_login_nor_mlflow_and_answers_by_itself(place: Layout):
    part = parts.viewer(place)
    for name in ("PREFECT_API_AUTH_STRING", "PREFECT_API_URL", "MLFLOW_TRACKING_URI", "PGPASSFILE"):
        assert name not in part.environment
    assert not part.ready()
    viewer = start("view", part.command, part.environment, place.home / "view.log")
    try:
        wait_until(part.ready, 60, (place.home / "view.log").read_text)
    finally:
        end(viewer, signal.SIGTERM, 20)
    assert not part.ready()
