"""A Prefect server with two deployments, and a process that runs them."""

import os
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.cli.trigger.helpers import wait_for
from tests.command_line import ROOT


@pytest.fixture(scope="package")
def served(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that has the deployments `stand-in` and `score-here`, and a process that runs them."""
    home = tmp_path_factory.mktemp("served")
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.trigger.served"],
            cwd=ROOT,
            env={
                **os.environ,
                "PREFECT_API_URL": prefect_server,
                "PREFECT_RUNNER_POLL_FREQUENCY": "1",
                "PREFECT_LOGGING_EXTRA_LOGGERS": "regrade",
                "REGRADE_SPOOL": str(home / "spool"),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    for name in ("stand-in/stand-in", "score-answers/score-here"):
        wait_for(
            lambda name=name: httpx.get(f"{prefect_server}/deployments/name/{name}").is_success,
            (home / "log").read_text,
        )
    yield prefect_server
    process.terminate()
    process.wait(30)
