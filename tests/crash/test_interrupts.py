"""Ctrl-C and SIGTERM: the run ends soon, leaves no process behind and keeps the answers."""

import signal
import time
from pathlib import Path

import pytest

from tests.crash.conftest import LIMIT, Make
from tests.crash.harness import Command, spooled, wait_until
from tests.hub_server.faults import Answer
from tests.hub_server.fixtures import Hub

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

SECONDS = 10.0


@pytest.mark.parametrize(
    ("number", "rows"),
    [
        pytest.param(signal.SIGINT, 10, id="ctrl-c"),
        pytest.param(signal.SIGTERM, 10, id="stopped", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, LIMIT, id="ctrl-c while publishing", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, LIMIT, id="stopped while publishing", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_run_ends_soon_and_says_that_the_answers_are_kept(
    on_hub: Make, hub: Hub, number: signal.Signals, rows: int
):
    hub.fail(
        "POST", "/commit/main", Answer(503), count=1000
    )  # the publisher always waits for a retry
    command = on_hub()
    with command.started() as run:
        wait_until(
            lambda: len(spooled(command.spool)) >= rows or run.process.poll() is not None,
            120,
            "no answers came",
        )
        left = spooled(command.spool)
        begin = time.monotonic()
        run.process.send_signal(number)
        ended = run.wait()
        seconds = time.monotonic() - begin

    assert ended.code == 128 + number, ended.err
    assert seconds < SECONDS
    assert "Finished answers are kept: the same command continues from there" in ended.err
    assert "Traceback" not in ended.err
    command.assert_nothing_left()
    assert left.items() <= spooled(command.spool).items()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_prefects_temporary_server_goes_with_the_run(on_hub: Make, number: signal.Signals):
    command = on_hub()
    del command.environment["PREFECT_API_URL"]
    command.environment["PREFECT_HOME"] = str(command.home / "prefect")
    with command.started() as run:
        run.until("is ready", 200)
        assert command.processes("regrade.orchestration.server:create_app")
        run.process.send_signal(number)
        run.wait()
    command.assert_nothing_left()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_stop_while_a_run_starts_is_one_line(served: Path, tmp_path: Path):
    moments = 40
    home = {"PREFECT_HOME": str(tmp_path / "prefect")}
    command = Command(tmp_path / "here", ["generate", "--config", str(served)], home)
    with command.started("--answers", str(tmp_path / "answers")) as run:
        begun = time.monotonic()
        run.until("is ready", 200)
        start = time.monotonic() - begun
    for moment in range(moments):
        with command.started("--answers", str(tmp_path / f"answers-{moment}")) as run:
            wait_until(lambda: handles_sigterm(run.process.pid), 60, "Python did not start")
            time.sleep(start * moment / moments)
            if run.process.poll() is not None:  # it was faster than the first start
                assert moment > moments / 4
                break
            run.process.send_signal(signal.SIGTERM)
            ended = run.wait(60)
        if ended.code == 0:  # it had ended when the signal came
            assert moment > moments / 4
            break
        assert ended.code == 143, (moment, ended.err)
        assert ended.err.endswith("`regrade publish` publishes them.\n"), (moment, ended.err)
        assert ended.err.count("Interrupted") == 1, (moment, ended.err)
        assert "Traceback" not in ended.err, (moment, ended.err)
    wait_until(lambda: not command.processes(), 60, "processes are left behind")


def handles_sigterm(pid: int) -> bool:
    """Return True once a process has a handler for SIGTERM: before that, Python itself starts."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
