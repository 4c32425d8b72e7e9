"""`watch-models` with a real Prefect server, a Hub and a folder: each revision is started once, whatever happens between."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.logging.handlers import APILogHandler
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.evaluate_model import evaluate_model
from flows.watch_models import WatchGate, watch_models
from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.cli.deploy import deploy
from regrade.orchestration.artifacts import WATCHED_KEY
from regrade.orchestration.watched_runs import ATTEMPTS
from regrade.settings import DatasetBenchmark
from regrade.settings.errors import OperationError, SettingsError
from tests.command_line import DEMO, regrade
from tests.comparing.sides import answer
from tests.hub_server.fixtures import Hub
from tests.prefect_fixtures import latest_page

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
SUMS = DatasetBenchmark(name="sums", path="unused")


@pytest.fixture(scope="module")
def deployed(prefect_server: str) -> str:
    with temporary_settings({PREFECT_API_URL: prefect_server}):
        deploy(force=False)
    return prefect_server


@pytest.fixture
def client(deployed: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncPrefectClient]:
    monkeypatch.setenv("PREFECT_API_URL", deployed)
    with temporary_settings({PREFECT_API_URL: deployed}), get_client(sync_client=True) as client:
        for run in runs(client):
            client.delete_flow_run(run.id)
        yield client
        APILogHandler().flush()


@pytest.fixture
def repository(tmp_path: Path) -> LocalRepository:
    return LocalRepository(tmp_path / "answers")


@pytest.fixture
def training(tmp_path: Path) -> Path:
    folder = tmp_path / f"run-{os.getpid()}"
    folder.mkdir()
    return folder


def checkpoint(training: Path, step: int) -> str:
    folder = training / f"checkpoint-{step}"
    shutil.copytree(DEMO / "regrade-demo", folder)
    for path in folder.iterdir():
        os.utime(path, (time.time() - 100,) * 2)
    return str(folder)


def runs(client: SyncPrefectClient) -> list[FlowRun]:
    """Runs of `evaluate-model`, the oldest first."""
    evaluations = FlowFilter(name=FlowFilterName(any_=["evaluate-model"]))
    found = client.read_flow_runs(flow_filter=evaluations)
    return sorted(found, key=lambda run: run.created.timestamp() if run.created else 0)


def end(client: SyncPrefectClient, run: FlowRun, kind: StateType) -> None:
    state: State[Any] = State(type=kind, message="as the test wants it")
    client.set_flow_run_state(run.id, state, force=True)


def watch(repository: LocalRepository, training: Path, **more: Any) -> dict[str, int]:
    return watch_models(folders=(str(training),), datasets=(SUMS,), answers=repository.uri, **more)


def test_each_checkpoint_is_started_once(
    client: SyncPrefectClient, deployed: str, repository: LocalRepository, training: Path
):
    first, second = checkpoint(training, 500), checkpoint(training, 1000)

    assert watch(repository, training, limit=5) == {"started": 2}

    started = runs(client)
    assert [run.parameters["model"] for run in started] == [first, second]
    assert started[0].parameters == {
        "model": first,
        "datasets": [{"name": "sums", "path": "unused"}],
        "answers": repository.uri,
        "limit": 5,
    }  # no gate: there is no last good revision yet
    assert "/checkpoint-1000 |" in latest_page(deployed, WATCHED_KEY)
    assert watch(repository, training, limit=5) == {"running": 2}
    third = checkpoint(training, 1500)
    end(client, started[0], StateType.COMPLETED)
    assert watch(repository, training, limit=5) == {"evaluated": 1, "running": 1, "started": 1}
    assert [run.parameters["model"] for run in runs(client)] == [first, second, third]
    other = watch(repository, training, limit=6, at_a_time=5)
    assert other == {"started": 3}, "other settings, other answers"


@pytest.mark.slow
def test_a_run_that_crashed_is_started_again_and_one_that_failed_is_not(
    client: SyncPrefectClient, repository: LocalRepository, training: Path
):
    checkpoint(training, 500)
    statuses = []
    for _ in range(ATTEMPTS + 1):
        statuses += watch(repository, training)
        end(client, runs(client)[-1], StateType.CRASHED)

    assert statuses == ["started"] * ATTEMPTS + ["failed"]
    assert len(runs(client)) == ATTEMPTS
    checkpoint(training, 1000)
    watch(repository, training)
    end(client, runs(client)[-1], StateType.FAILED)
    assert watch(repository, training) == {"failed": 2}


@pytest.mark.slow
def test_only_so_many_runs_wait_at_a_time(
    client: SyncPrefectClient, repository: LocalRepository, training: Path
):
    for step in (100, 200, 300):
        checkpoint(training, step)

    assert watch(repository, training, at_a_time=2) == {"started": 2, "later": 1}
    assert watch(repository, training, at_a_time=2) == {"running": 2, "later": 1}
    end(client, runs(client)[0], StateType.COMPLETED)
    assert watch(repository, training, at_a_time=2) == {"evaluated": 1, "running": 1, "started": 1}
    assert [Path(run.parameters["model"]).name for run in runs(client)] == [
        "checkpoint-100",
        "checkpoint-200",
        "checkpoint-300",
    ]


@pytest.mark.slow
def test_open_runs_of_checkpoints_that_are_gone_take_their_places(
    client: SyncPrefectClient, repository: LocalRepository, training: Path
):
    gone = checkpoint(training, 100)
    assert watch(repository, training, at_a_time=1) == {"started": 1}
    shutil.rmtree(gone)
    checkpoint(training, 200)
    assert watch(repository, training, at_a_time=1) == {"later": 1}
    end(client, runs(client)[0], StateType.COMPLETED)
    assert watch(repository, training, at_a_time=1) == {"started": 1}


def test_a_checkpoint_that_is_being_written_is_left_until_it_is_whole(
    client: SyncPrefectClient, repository: LocalRepository, training: Path
):
    folder = Path(checkpoint(training, 500))
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:1000])
    assert watch(repository, training, settle=0) == {"not written": 1}

    (folder / "model.safetensors").write_bytes(weights)
    assert watch(repository, training, settle=60) == {"not written": 1}
    assert watch(repository, training, settle=0) == {"started": 1}
    assert len(runs(client)) == 1


def test_the_gate_compares_with_the_last_good_revision_of_the_same_training(
    client: SyncPrefectClient, repository: LocalRepository, training: Path
):
    alias = f"last-good-{training.name}"
    checkpoint(training, 500)
    move_alias(repository, alias, [answer(repository, "org/good", right=400)])

    watch(repository, training, gate=WatchGate(max_drop=2.0))

    assert runs(client)[-1].parameters["gate"] == {"baseline": alias, "max_drop": 2.0}


def test_the_first_revision_becomes_the_alias_if_it_is_to_be_moved(
    client: SyncPrefectClient, repository: LocalRepository, training: Path
):
    checkpoint(training, 500)

    watch(repository, training, gate=WatchGate(promote=True))

    gate = runs(client)[-1].parameters["gate"]
    assert gate == {"baseline": f"last-good-{training.name}", "promote": True}


@pytest.mark.slow
def test_every_commit_of_a_model_and_of_an_organisation_is_started_once(
    client: SyncPrefectClient,
    repository: LocalRepository,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    api = HfApi(endpoint=hub.endpoint, token=hub.token)

    def push(short: str, file: str) -> str:
        name = f"{hub.user}/{short}"
        api.create_repo(name, exist_ok=True)
        api.upload_file(path_or_fileobj=os.urandom(9), path_in_repo=file, repo_id=name)
        return f"{name}@{api.model_info(name).sha}"

    def look() -> dict[str, int]:
        return watch_models(
            models=(f"{hub.user}/one",),
            organisations=(hub.user,),
            datasets=(SUMS,),
            answers=repository.uri,
        )

    push("one", "config.json")
    assert look() == {"not written": 1}
    first = push("one", "model.safetensors")
    assert look() == {"started": 1}
    assert look() == {"running": 1}
    second = push("one", "model.safetensors")
    push("two", "config.json")
    other = push("two", "model.safetensors")
    assert look() == {"started": 2}
    assert look() == {"running": 2}
    assert [run.parameters["model"] for run in runs(client)] == [first, second, other]


@pytest.mark.slow
def test_what_cannot_be_read_is_told_after_the_others_are_started(
    client: SyncPrefectClient, repository: LocalRepository, training: Path, tmp_path: Path
):
    checkpoint(training, 500)
    gone = str(tmp_path / "gone")

    with pytest.raises(OperationError, match="There is no folder"):
        watch_models(folders=(gone, str(training)), datasets=(SUMS,), answers=repository.uri)

    assert len(runs(client)) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"datasets": (SUMS,)}, "Nothing to watch"),
        ({"folders": ("/x",)}, "nothing to evaluate"),
    ],
)
def test_a_watch_without_models_or_benchmarks_is_refused(
    client: SyncPrefectClient, parameters: dict[str, Any], message: str
):
    with pytest.raises(SettingsError, match=message):
        watch_models(**parameters)


def test_every_parameter_of_an_evaluation_can_be_passed_on():
    passed = set(evaluate_model.parameters.properties) - {"model", "more_models", "share", "follow"}

    assert passed <= set(watch_models.parameters.properties)


def test_a_look_is_started_from_a_file(
    client: SyncPrefectClient, repository: LocalRepository, training: Path, tmp_path: Path
):
    config = tmp_path / "watch.yaml"
    given = {
        "folders": [str(training)],
        "datasets": [{"name": "sums", "path": "unused"}],
        "gate": {"max_drop": 1.0, "promote": True},
        "answers": repository.uri,
    }
    config.write_text(json.dumps(given))

    started = regrade("trigger", "watch-models", "--config", config)

    assert started.code == 0, started.err
    looks = FlowFilter(name=FlowFilterName(any_=["watch-models"]))
    (run,) = [
        run for run in client.read_flow_runs(flow_filter=looks) if run.state_type == "SCHEDULED"
    ]
    assert {name: run.parameters[name] for name in given} == given
    client.delete_flow_run(run.id)
