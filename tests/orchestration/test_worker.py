"""A flow run started by a worker: errors on the run's page, cancellation, and the end of the worker."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from regrade.orchestration.worker import without_traceback
from regrade.processes.shutdown import GRACE
from regrade.settings.errors import SettingsError
from regrade.settings.worker_limits import STARTED_BY_WORKER
from tests.command_line import ROOT


def record_of(error: Exception, message: str) -> logging.LogRecord:
    try:
        raise error
    except type(error):
        return logging.LogRecord("prefect", logging.ERROR, "", 0, message, (), sys.exc_info())


def test_an_error_raised_on_purpose_is_one_line_and_another_keeps_its_traceback():
    record = record_of(SettingsError("choose a benchmark"), "Encountered exception")
    assert without_traceback(record)
    assert logging.Formatter().format(record) == "SettingsError: choose a benchmark"
    repeated = record_of(SettingsError("x"), "Engine execution exited with unexpected exception")
    assert not without_traceback(repeated)
    unforeseen = record_of(KeyError("x"), "Encountered exception")
    assert without_traceback(unforeseen)
    assert "Traceback" in logging.Formatter().format(unforeseen)


def test_the_process_of_a_cancelled_run_ends_though_a_thread_hangs():
    hanging = """
import signal, threading, time
import flows.evaluate_model
signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Prefect: an exception in the main thread
threading.Thread(target=time.sleep, args=(120,)).start()
print("up", flush=True)
time.sleep(120)
"""
    with subprocess.Popen(
        [sys.executable, "-c", hanging],
        cwd=ROOT,
        env={**os.environ, STARTED_BY_WORKER: "any"},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert time.monotonic() - started < GRACE + 20


def test_a_flow_run_goes_on_when_nobody_reads_its_output_any_more(tmp_path: Path):
    printing = f"""
import time
from pathlib import Path
from regrade.orchestration.worker import set_up_if_under_worker
set_up_if_under_worker()
from rich.console import Console
console = Console(stderr=True)
print("up", flush=True)
while not Path({str(tmp_path / "go")!r}).exists():
    time.sleep(0.05)
time.sleep(0.5)
for number in range(10):
    print("out", flush=True)
    console.print("err")
Path({str(tmp_path / "done")!r}).touch()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", printing],
        cwd=ROOT,
        env={**os.environ, STARTED_BY_WORKER: "any"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"up\n"
    process.stdout.close()  # as the kernel does for a worker that is killed
    process.stderr.close()
    (tmp_path / "go").touch()
    assert process.wait(60) == 0
    assert (tmp_path / "done").exists()
