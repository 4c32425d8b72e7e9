"""The whole chain of `watch-models`: a folder that is being written and a Hub, workers, vLLM, verdicts and aliases."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from huggingface_hub import HfApi
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_API_URL, temporary_settings

from regrade.answers.aliases import aliased_sets, read_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.answers.verify import verify
from regrade.cli.deploy import deploy
from regrade.settings.worker_limits import STARTED_BY_WORKER
from tests.command_line import DEMO, ROOT
from tests.crash.harness import spooled
from tests.hub_server.fixtures import Hub
from tests.prefect_fixtures import running_server

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1800)]
QUESTIONS = 60
NORM = "model.norm.weight"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[str]:
    """Address of a Prefect server of this test's own: its workers take every run of their pools."""
    home = tmp_path / "prefect"
    home.mkdir()
    with running_server(home) as (address, _):
        yield address


@pytest.fixture
def client(api: str) -> Iterator[SyncPrefectClient]:
    with temporary_settings({PREFECT_API_URL: api}):
        deploy(force=False)
        with get_client(sync_client=True) as client:
            yield client


@contextmanager
def worker(
    pool: str, folder: Path, environment: Mapping[str, str]
) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "regrade.cli.main", "worker", "--pool", pool, "--limit", "1"]
    with (
        (folder / f"worker-{pool}.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=ROOT) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            process.wait(90)


def weights(times: float) -> bytes:
    """The demo model's weights with the last norm multiplied: by 2, it answers the same; by -1, nonsense."""
    from safetensors.torch import load_file, save

    tensors = load_file(DEMO / "regrade-demo/model.safetensors")
    return save({**tensors, NORM: tensors[NORM] * times}, metadata={"format": "pt"})


@dataclass
class Chain:
    """A server, its workers, and what they watch."""

    client: SyncPrefectClient
    folder: Path
    gpu: "subprocess.Popen[bytes]"
    parameters: dict[str, Any]

    @property
    def repository(self) -> LocalRepository:
        return LocalRepository(self.folder / "answers")

    def runs(self) -> list[FlowRun]:
        """Runs of `evaluate-model`, the oldest first."""
        evaluations = FlowFilter(name=FlowFilterName(any_=["evaluate-model"]))
        found = self.client.read_flow_runs(flow_filter=evaluations)
        return sorted(found, key=lambda run: run.created.timestamp() if run.created else 0)

    def look(self) -> list[FlowRun]:
        """Run `watch-models` on the cpu worker as its schedule does; return the runs that it started."""
        before = {run.id for run in self.runs()}
        deployment = self.client.read_deployment_by_name("watch-models/watch-models")
        look = self.client.create_flow_run_from_deployment(
            deployment.id, parameters=self.parameters
        )
        self.until(lambda: self.state(look).is_final(), 120)
        assert self.state(look).is_completed(), self.told(self.state(look))
        return [run for run in self.runs() if run.id not in before]

    def state(self, run: FlowRun) -> State[Any]:
        state = self.client.read_flow_run(run.id).state
        assert state is not None
        return state

    def message(self, run: FlowRun) -> str:
        """Message of a run's end, which has its verdict."""
        self.until(lambda: self.state(run).is_final(), 600)
        state = self.state(run)
        assert state.is_completed(), self.told(state)
        return str(state.message)

    def kill(self, run: FlowRun) -> None:
        """Kill the process of a run (SIGKILL) while its engine answers."""
        self.until(lambda: len(spooled(self.folder / "spool")) >= 10, 300)
        mine = {STARTED_BY_WORKER: str(run.id)}.items()
        children = psutil.Process(self.gpu.pid).children(recursive=True)
        processes = [child for child in children if mine <= child.environ().items()]
        assert processes, self.told(self.state(run))
        processes[0].kill()
        self.until(lambda: self.state(run).is_crashed(), 120)

    def alias(self, name: str) -> str:
        """Name of the model that an alias stands for."""
        head = self.repository.head()
        assert head is not None
        alias = read_alias(self.repository, head, name)
        assert alias is not None
        (stored,) = aliased_sets(self.repository, head, alias).values()
        return stored.manifest.specification.model.name

    def until(self, met: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < deadline, self.told("")
            assert self.gpu.poll() is None, self.told("the worker has ended")
            time.sleep(0.2)

    def told(self, problem: object) -> str:
        logs = [path.read_text()[-6000:] for path in self.folder.glob("worker-*.log")]
        return "\n".join(
            [str(problem), *(f"{run.name}: {run.state}" for run in self.runs()), *logs]
        )


@pytest.fixture
def chain(client: SyncPrefectClient, api: str, hub: Hub, tmp_path: Path) -> Iterator[Chain]:
    environment = {
        **os.environ,
        "PREFECT_API_URL": api,
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": hub.token,
        "REGRADE_SPOOL": str(tmp_path / "spool"),
    }
    arithmetic = yaml.safe_load((DEMO / "demo.yaml").read_text())["datasets"][0]
    arithmetic["path"] = str(ROOT / arithmetic["path"])
    parameters = {
        "models": [f"{hub.user}/tiny"],
        "folders": [str(tmp_path / "training")],
        "settle": 1,
        "gate": {"promote": True, "max_drop": 10},
        "datasets": [arithmetic],
        "limit": QUESTIONS,
        "engine": {
            "kind": "vllm",
            "dtype": "float32",
            "enforce_eager": True,
            "max_model_len": 512,
            "max_num_seqs": 2,  # slow enough to be killed between two answers
            "extra": ["kv_cache_memory_bytes=268435456"],
        },
        "answers": str(tmp_path / "answers"),
        "tracking_uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
    }
    (tmp_path / "training").mkdir()
    with worker("cpu", tmp_path, environment), worker("gpu", tmp_path, environment) as gpu:
        yield Chain(client, tmp_path, gpu, parameters)


def test_good_revisions_become_the_alias_worse_ones_do_not_and_a_crash_repeats_nothing(
    chain: Chain, hub: Hub
):
    training = chain.folder / "training"
    hf = HfApi(endpoint=hub.endpoint, token=hub.token)
    on_hub = f"{hub.user}/tiny"

    def save(step: int, content: bytes) -> Path:
        """Write a checkpoint, its weights last."""
        folder = training / f"checkpoint-{step}"
        shutil.copytree(DEMO / "regrade-demo", folder, ignore=lambda *_: ["model.safetensors"])
        (folder / "model.safetensors").write_bytes(content)
        return folder

    def settled() -> None:
        time.sleep(1.5)

    good, same, worse = weights(1), weights(2), weights(-1)

    # A commit, and a checkpoint of which half is written.
    hf.create_repo(on_hub)
    hf.upload_folder(folder_path=DEMO / "regrade-demo", repo_id=on_hub)
    commit = hf.model_info(on_hub).sha
    first = save(500, good[: len(good) // 2])
    settled()
    (run,) = chain.look()
    assert run.parameters["model"] == f"{on_hub}@{commit}"
    (first / "model.safetensors").write_bytes(good)
    settled()
    (another,) = chain.look()
    assert another.parameters["model"] == str(first)
    assert chain.message(run).endswith(f"alias last-good-{hub.user}-tiny names {on_hub} now")
    assert "alias last-good-training names" in chain.message(another)
    assert chain.look() == []

    # An equal checkpoint, whose evaluation is killed, and then a worse one.
    second = save(1000, same)
    settled()
    (crashed,) = chain.look()
    chain.kill(crashed)
    third = save(1500, worse)
    settled()
    again, last = chain.look()
    assert [run.parameters["model"] for run in (again, last)] == [str(second), str(third)]
    assert chain.message(again).startswith("pass")
    assert chain.message(last).startswith("regression")
    assert chain.alias("last-good-training") == "training/checkpoint-1000"
    assert chain.look() == []

    assert len(chain.runs()) == 5, "four revisions, one of them twice"
    head = chain.repository.head()
    assert head is not None
    stored = list_sets(chain.repository, head)
    assert len(stored) == 4
    for answers in stored:
        assert answers.manifest.state == "complete"
        rows = [
            row["sample_id"]
            for batch in answers.batches(["sample_id"])
            for row in batch.to_pylist()
        ]
        assert len(rows) == len(set(rows)) == QUESTIONS
        assert sum(session.rows for session in answers.manifest.sessions) == QUESTIONS
    assert not verify(chain.repository, head).problems
    assert spooled(chain.folder / "spool") == {}
