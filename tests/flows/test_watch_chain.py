"""The whole chain of `watch-models`: a folder that is being written and a Hub, a worker, vLLM, verdicts and aliases."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from huggingface_hub import HfApi
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun

from regrade.answers.aliases import aliased_sets, read_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.answers.verify import verify
from regrade.settings.worker_limits import STARTED_BY_WORKER
from tests.command_line import DEMO, ROOT, demo_parameters
from tests.crash.harness import Command, Started, spooled, wait_until
from tests.hub_server.fixtures import Hub
from tests.prefect_fixtures import running_server, state_of

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1800)]
QUESTIONS = 60
NORM = "model.norm.weight"


@pytest.fixture
def prefect_server(tmp_path: Path) -> Iterator[str]:
    """Address of a Prefect server of this test's own: its workers take every run of their pools."""
    home = tmp_path / "prefect"
    home.mkdir()
    with running_server(home) as (address, _):
        yield address


def weights(times: float) -> bytes:
    """The demo model's weights with the last norm multiplied: by 2, it answers the same; by -1, nonsense."""
    from safetensors.torch import load_file, save

    tensors = load_file(DEMO / "regrade-demo/model.safetensors")
    return save({**tensors, NORM: tensors[NORM] * times}, metadata={"format": "pt"})


@dataclass
class Chain:
    """A server, its worker, and what it watches."""

    client: SyncPrefectClient
    worker: Command
    gpu: Started
    parameters: dict[str, Any]

    @property
    def repository(self) -> LocalRepository:
        return LocalRepository(self.worker.home / "answers")

    def start(self) -> FlowRun:
        """Start a run of `watch-models`, as its schedule does."""
        deployment = self.client.read_deployment_by_name("evaluate-model/watch-models")
        return self.client.create_flow_run_from_deployment(
            deployment.id, parameters=self.parameters
        )

    def look(self) -> str:
        """Run `watch-models`, and return the message of the run's end."""
        run = self.start()
        self.until(lambda: state_of(self.client, run).is_final(), 900)
        state = state_of(self.client, run)
        assert state.is_completed(), f"{state}\n{self.gpu.err.read_text()[-6000:]}"
        return str(state.message)

    def kill(self, run: FlowRun) -> None:
        """Kill the process of a run (SIGKILL) while its engine answers."""
        self.until(lambda: len(spooled(self.worker.spool)) >= 10, 300)
        mine = {STARTED_BY_WORKER: str(run.id)}.items()
        children = psutil.Process(self.gpu.process.pid).children(recursive=True)
        next(child for child in children if mine <= child.environ().items()).kill()
        self.until(lambda: state_of(self.client, run).is_crashed(), 120)

    def alias(self, name: str) -> str:
        """Name of the model that an alias stands for."""
        head = self.repository.head()
        assert head is not None
        alias = read_alias(self.repository, head, name)
        assert alias is not None
        (stored,) = aliased_sets(self.repository, head, alias).values()
        return stored.manifest.specification.model.name

    def until(self, met: Callable[[], bool], seconds: float) -> None:
        def is_met() -> bool:
            assert self.gpu.process.poll() is None, self.gpu.err.read_text()[-6000:]
            return met()

        wait_until(is_met, seconds, "it did not come in time")


@pytest.fixture
def chain(
    client: SyncPrefectClient, prefect_server: str, hub: Hub, tmp_path: Path
) -> Iterator[Chain]:
    environment = {
        "PREFECT_API_URL": prefect_server,
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": hub.token,
        "REGRADE_CACHE": str(tmp_path / "cache"),
    }
    arithmetic = demo_parameters()["datasets"][0]
    arithmetic["path"] = str(ROOT / arithmetic["path"])
    parameters = {
        "model": f"{hub.user}/tiny",
        "more_models": [str(tmp_path / "training" / "checkpoint-*")],
        "gate": {"baseline": "last-good-{model}", "promote": True, "max_drop": 10},
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
    worker = Command(tmp_path, ["worker", "--pool", "gpu", "--limit", "1"], environment)
    with worker.started() as gpu:
        yield Chain(client, worker, gpu, parameters)


def test_good_revisions_become_the_alias_worse_ones_do_not_and_a_crash_repeats_nothing(
    chain: Chain, hub: Hub
):
    training = chain.worker.home / "training"
    hf = HfApi(endpoint=hub.endpoint, token=hub.token)
    on_hub = f"{hub.user}/tiny"

    def save(step: int, content: bytes) -> Path:
        """Write a checkpoint, its weights last."""
        folder = training / f"checkpoint-{step}"
        shutil.copytree(DEMO / "regrade-demo", folder, ignore=lambda *_: ["model.safetensors"])
        (folder / "model.safetensors").write_bytes(content)
        return folder

    good, same, worse = weights(1), weights(2), weights(-1)

    # A commit, and a checkpoint of which half is written.
    hf.create_repo(on_hub)
    hf.upload_folder(folder_path=DEMO / "regrade-demo", repo_id=on_hub)
    first = save(500, good[: len(good) // 2])
    assert chain.look().startswith("1 models, 1 engine starts")
    assert chain.alias(f"last-good-{hub.user}-tiny") == on_hub
    (first / "model.safetensors").write_bytes(good)
    assert chain.look().startswith("1 models, 1 engine starts")
    assert chain.alias("last-good-training") == "training/checkpoint-500"
    assert chain.look() == "no new models"

    # An equal checkpoint, whose evaluation is killed, and then a worse one.
    save(1000, same)
    chain.kill(chain.start())
    save(1500, worse)
    message = chain.look()
    assert message.startswith("2 models, ")
    assert "regression" in message
    assert chain.alias("last-good-training") == "training/checkpoint-1000"
    assert chain.look() == "no new models"

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
    assert spooled(chain.worker.spool) == {}
