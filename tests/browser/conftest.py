"""A Prefect server with the deployments of prefect.yaml, a GPU worker, the test Hub, MLflow, and a browser."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.browser.pages import SCREENSHOTS, Pages, chromium
from tests.command_line import ROOT, run
from tests.crash.harness import MARK, Command
from tests.hub_server.fixtures import Hub


@dataclass(frozen=True)
class Worker:
    """A process worker for the pool `gpu`; what it starts is known by a mark."""

    home: Path
    command: Command
    process: "subprocess.Popen[bytes]"

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    @property
    def log(self) -> str:
        return (self.home / "worker.log").read_text()

    def engine_processes(self) -> list[int]:
        words = ("regrade.engines.guard", "regrade.engines.vllm_worker", "VLLM::")
        return [pid for word in words for pid in self.command.processes(word)]


@contextmanager
def gpu_worker(home: Path, environment: dict[str, str]) -> Iterator[Worker]:
    home.mkdir(parents=True, exist_ok=True)
    mark = uuid4().hex
    environment = {
        "REGRADE_HOME": str(ROOT),
        "REGRADE_SPOOL": str(home / "spool"),
        "REGRADE_LOGS": str(home / "logs"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **environment,
        MARK: mark,
    }
    command = [sys.executable, "-m", "prefect", "worker", "start"]
    with (home / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--pool", "gpu", "--type", "process"],
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=home,
            start_new_session=True,
        )
    worker = Worker(home, Command(home, [], {}, mark), process)
    try:
        yield worker
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in worker.command.processes():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def deployments(prefect_server: str) -> None:
    """The deployments of prefect.yaml on the session's server."""
    environment = {"PREFECT_API_URL": prefect_server, "REGRADE_HOME": str(ROOT)}
    deployed = run(["bash", "infra/deploy.sh"], 250, environment)
    assert deployed.code == 0, deployed.out + deployed.err


@pytest.fixture
def worker(
    deployments: None, prefect_server: str, mlflow_server: str, hub: Hub, tmp_path: Path
) -> Iterator[Worker]:
    environment = {
        "PREFECT_API_URL": prefect_server,
        "MLFLOW_TRACKING_URI": mlflow_server,
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": hub.token,
        "HF_HOME": str(tmp_path / "huggingface"),
    }
    with gpu_worker(tmp_path / "worker", environment) as worker:
        yield worker


@pytest.fixture
def pages(prefect_server: str, tmp_path: Path) -> Iterator[Pages]:
    shots = Path(os.environ.get(SCREENSHOTS) or tmp_path / "screenshots")
    with chromium(tmp_path / "profile") as browser:
        pages = Pages(browser, prefect_server, shots)
        yield pages
        pages.shot("last")  # what was there when a test failed
