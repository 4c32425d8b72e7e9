"""A stack for tests, started as by `make stack`, and a client for its servers."""

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from infra.stack.layout import Layout
from infra.stack.login import read_login
from infra.stack.processes import Known, read_state
from regrade.processes.tree import is_running
from tests.command_line import ROOT, Ran, run
from tests.prefect_login import Login
from tests.processes import trees
from tests.server_process import free_port


def stack_python() -> tuple[str, dict[str, str]]:
    """The Python that runs the stack, with its variables.

    The user of the workers cannot run a Python below /root. The system's Python of the same version then runs the same
    packages, so that these tests show workers without root's rights.
    """
    own = Path(sys.executable).resolve()
    system = Path(f"/usr/bin/python3.{sys.version_info.minor}")
    hidden = any(not folder.stat().st_mode & 0o001 for folder in own.parents)
    if os.geteuid() != 0 or not hidden or not system.exists():
        return sys.executable, {}
    ours = str(Path(__file__).with_name("system_python"))
    paths = [os.environ.get("PYTHONPATH", ""), ours, sysconfig.get_path("purelib")]
    return str(system), {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


PYTHON, PATHS = stack_python()
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


wait_until = partial(trees.wait_until, pause=0.3)


def living(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that are running; zombies are not."""
    return [*filter(is_running, processes)]


@dataclass
class Stack:
    """Addresses, environment and supervisor process of a stack."""

    place: Layout
    environment: dict[str, str]
    supervisor: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def output(self) -> Path:
        return self.place.home / "up.log"

    @property
    def api(self) -> str:
        return f"{self.place.prefect_url}/api"

    @property
    def login(self) -> str:
        """Login of the Prefect server."""
        return read_login(self.place)

    @property
    def auth(self) -> Login:
        return Login(self.login)

    def start(self) -> None:
        with self.output.open("wb") as output:
            self.supervisor = supervisor = subprocess.Popen(
                [PYTHON, "-m", "infra.stack", "up"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        def ready() -> bool:
            text = self.output.read_text()
            assert supervisor.poll() is None, text
            return "the stack is ready" in text

        wait_until(ready, 400, self.output.read_text)

    def command(self, *arguments: str | Path, **changes: str) -> Ran:
        command = [PYTHON, "-m", "infra.stack", *map(str, arguments)]
        return run(command, 200, self.environment | changes)

    def parts(self) -> dict[str, Known]:
        return {part.name: part for part in read_state(self.place.state)[1]}

    def below(self, name: str) -> list[psutil.Process]:
        """All descendants of a part's process."""
        process = self.parts()[name].process()
        assert process is not None, f"{name} has ended"
        return process.children(recursive=True)

    def engine_processes(self) -> list[psutil.Process]:
        """Processes of the GPU worker's engine: supervisor, engine worker, processes of vLLM."""
        words = ("regrade.processes.supervisor", "regrade.engines.vllm_process.worker", "VLLM::")
        found = []
        for process in self.below("worker-gpu"):
            with suppress(psutil.NoSuchProcess):
                line = " ".join(process.cmdline())
                found += [process for word in words if word in line]
        return found

    @property
    def spool(self) -> Path:
        return self.place.home / "spool"

    def everything(self) -> list[psutil.Process]:
        found = [part.process() for part in self.parts().values()]
        parts = [process for process in found if process is not None]
        return parts + [child for part in parts for child in part.children(recursive=True)]

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the answer of Prefect's API, to a POST request if there is a body."""
        method = "GET" if body is None else "POST"
        answer = httpx.request(method, f"{self.api}{path}", json=body, auth=self.auth, timeout=30)
        assert answer.is_success, answer.text
        return answer.json()

    def start_run(self, deployment: str, parameters: dict[str, Any]) -> str:
        """Start a deployment through the API, and return the id of its flow run."""
        found = self.ask(f"/deployments/name/{deployment}/{deployment}")
        started = self.ask(
            f"/deployments/{found['id']}/create_flow_run", {"parameters": parameters}
        )
        return str(started["id"])

    def flow_run(self, flow_run_id: str) -> dict[str, Any]:
        return dict(self.ask(f"/flow_runs/{flow_run_id}"))

    def works(self) -> bool:
        """Return True if the Prefect server and its database answer."""
        try:
            asked = httpx.post(f"{self.api}/flows/count", json={}, auth=self.auth, timeout=10)
        except httpx.HTTPError:
            return False
        return asked.is_success

    def finish(self, flow_run_id: str, seconds: float = 540) -> dict[str, Any]:
        """Wait for the end of a flow run, and return it."""
        told = partial(self.told, flow_run_id)
        wait_until(lambda: self.has_ended(flow_run_id), seconds, told)
        return self.flow_run(flow_run_id)

    def has_ended(self, flow_run_id: str) -> bool:
        return self.flow_run(flow_run_id)["state_type"] in FINAL

    def completed(self, flow_run_id: str) -> dict[str, Any]:
        """Wait for the end of a flow run, check that it is completed, and return it."""
        ended = self.finish(flow_run_id)
        assert ended["state_type"] == "COMPLETED", self.told(flow_run_id)
        return ended

    def told(self, flow_run_id: str) -> str:
        """State and log of a flow run, for the message of a failing test."""
        asked = {"logs": {"flow_run_id": {"any_": [flow_run_id]}}, "sort": "TIMESTAMP_ASC"}
        messages = [line["message"] for line in self.ask("/logs/filter", asked)]
        return "\n".join([str(self.flow_run(flow_run_id)["state"]), *messages])

    def artifacts(self, flow_run_id: str) -> list[dict[str, Any]]:
        asked = {"artifacts": {"flow_run_id": {"any_": [flow_run_id]}}}
        return list(self.ask("/artifacts/filter", asked))

    def pages(self, flow_run_id: str) -> list[str]:
        """Pages of markdown."""
        found = self.artifacts(flow_run_id)
        return [artifact["data"] for artifact in found if artifact["type"] == "markdown"]

    def progress(self, flow_run_id: str) -> float:
        """Percentage of the answers on the run's page; 0 before the first answer."""
        state = self.flow_run(flow_run_id)["state_type"]
        assert state in {"SCHEDULED", "PENDING", "RUNNING"}, self.told(flow_run_id)
        artifacts = self.artifacts(flow_run_id)
        return max(
            [artifact["data"] or 0.0 for artifact in artifacts if artifact["type"] == "progress"]
            or [0.0]
        )

    def set_state(self, flow_run_id: str, kind: str, name: str) -> None:
        body = {"state": {"type": kind, "name": name}}
        self.ask(f"/flow_runs/{flow_run_id}/set_state", body)

    def mlflow(self, path: str, **asked: Any) -> dict[str, Any]:
        url = f"{self.place.mlflow_url}/api/2.0/mlflow/{path}"
        return dict(httpx.post(url, json=asked, timeout=30).raise_for_status().json())

    def metrics(self, name: str) -> list[float]:
        """All values of a metric in all experiments, sorted."""
        found = self.mlflow("experiments/search", max_results=100)["experiments"]
        ids = [experiment["experiment_id"] for experiment in found]
        runs = self.mlflow("runs/search", experiment_ids=ids, max_results=100).get("runs", [])
        kept = [metric for run in runs for metric in run["data"].get("metrics", [])]
        return sorted(float(metric["value"]) for metric in kept if metric["key"] == name)

    def kill(self, name: str, *, alone: bool = False) -> None:
        """Kill the process group of a part, or only its process if `alone`."""
        pid = self.parts()[name].pid
        (os.kill if alone else os.killpg)(pid, signal.SIGKILL)

    @contextmanager
    def nothing_started_again(self) -> Iterator[None]:
        """Restart no part while the block runs."""
        assert self.supervisor is not None
        self.supervisor.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.supervisor.send_signal(signal.SIGCONT)


def stack_in(home: Path, environment: Mapping[str, str]) -> Stack:
    """A stack in a folder, on free ports, not started yet."""
    place = Layout(home, *(free_port() for _ in range(5)))
    settings = {
        "REGRADE_STACK": str(home),
        "REGRADE_POSTGRES_PORT": str(place.postgres_port),
        "REGRADE_PREFECT_PORT": str(place.prefect_port),
        "REGRADE_MLFLOW_PORT": str(place.mlflow_port),
        "REGRADE_VIEW_PORT": str(place.view_port),
        "REGRADE_PROMETHEUS_PORT": str(place.prometheus_port),
        "REGRADE_SPOOL": str(home / "spool"),
        "REGRADE_CACHE": str(home / "cache"),
        "REGRADE_QUESTIONS": str(home / "questions"),
        "HF_HOME": str(home / "huggingface"),
        "REGRADE_LOGS": str(home / "logs/engines"),
    }
    return Stack(place, {**os.environ, **PATHS, **settings, **environment})


@contextmanager
def started(stack: Stack) -> Iterator[Stack]:
    """Start a stack, and stop it at the end of the block."""
    try:
        stack.start()
        yield stack
    finally:
        stack.command("down")
        if stack.supervisor is not None and stack.supervisor.poll() is None:
            stack.supervisor.send_signal(signal.SIGKILL)
            stack.supervisor.wait()
