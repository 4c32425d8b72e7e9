"""Kill, end or cancel a run of several checkpoints in one engine while it answers for a later one, and compare with a start for each."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient

from perf.workloads import checkpoint
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from tests.command_line import ROOT, demo_parameters
from tests.crash.harness import Command, wait_until
from tests.crash.on_worker import cancelled_and_run_again
from tests.stored import by_row

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.prefect,
    pytest.mark.slow,  # nine engine starts
    pytest.mark.timeout(2400),
]
LIMIT = 120
STEPS = (100, 200, 300)


def answers_of(folder: Path, *, swapped: int | None) -> dict[str, dict[tuple[str, int], Any]]:
    """Return the texts of each answer set, by its model.

    Args:
        folder: Their repository.
        swapped: Step whose first answers were given by weights that took the place of others; None: each model had a start.
    """
    repository = LocalRepository(folder)
    found = {}
    for answers in list_sets(repository, repository.head() or ""):
        manifest = answers.manifest
        assert manifest.state == "complete"
        said = {key: row["text"] for key, row in by_row(answers, "text").items()}
        assert len(said) == LIMIT
        weights = [session.weights for session in manifest.sessions]
        assert {loaded.memory for loaded in weights if loaded is not None} != {None}
        assert len({loaded.memory for loaded in weights if loaded is not None}) == 1
        name = manifest.specification.model.name
        replaced = [loaded is not None and loaded.replaced for loaded in weights]
        if swapped is None:
            assert not any(replaced)
        elif name.endswith(f"-{swapped}"):
            assert replaced[0], "the engine was started anew"
        found[name] = said
    return found


@dataclass(frozen=True)
class Runs:
    """Commands on a Prefect server that answer for checkpoints, below a folder."""

    folder: Path
    server: str

    def parameters(self, *models: str) -> dict[str, Any]:
        dataset = demo_parameters()["datasets"][0]
        return {
            "model": models[0],
            "more_models": [*models[1:]],
            "limit": LIMIT,
            "datasets": [dataset | {"path": str(ROOT / dataset["path"])}],
            "engine": {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 4},
        }

    def command(self, name: str, *models: str) -> Command:
        """Return a command that generates; what comes before `-` in its name is the folder of its answers."""
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(self.parameters(*models)))
        where = self.folder / name.partition("-")[0]
        return self.of(name, ["generate", "--config", str(file), "--answers", str(where)])

    def of(self, name: str, arguments: list[str]) -> Command:
        environment = {
            "PREFECT_API_URL": self.server,
            "REGRADE_PUBLISH_SECONDS": "0.5",
            "REGRADE_CACHE": str(self.folder / "cache"),
        }
        return Command(self.folder / f"home-{name}", arguments, environment)

    def has_begun_the_second(self, name: str) -> bool:
        """Return if answers of two checkpoints are published."""
        repository = LocalRepository(self.folder / name)
        head = repository.head()
        return head is not None and len(list_sets(repository, head)) > 1

    def assert_interrupted(self, name: str) -> None:
        repository = LocalRepository(self.folder / name)
        stored = list_sets(repository, repository.head() or "")
        assert len(stored) < 3 or any(s.manifest.state == "incomplete" for s in stored)


@pytest.fixture(scope="module")
def runs(demo_model: Path, prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Three checkpoints, of which the first two are answered by an engine each, because the second's proves that weights can be replaced."""
    folder = tmp_path_factory.mktemp("swapped")
    for step in STEPS:
        checkpoint(demo_model, folder / "run" / f"checkpoint-{step}", seed=step)
    runs = Runs(folder, prefect_server)
    proven = runs.command(
        "alone-proven", *(f"{folder}/run/checkpoint-{step}" for step in STEPS[:2])
    ).finish(timeout=900)
    assert proven.code == 0, proven.err
    assert "models like these share an engine" in proven.err
    return runs


@pytest.fixture(scope="module")
def alone(runs: Runs) -> dict[str, dict[tuple[str, int], Any]]:
    """Texts of checkpoints that had a start each."""
    last = runs.command("alone-last", f"{runs.folder}/run/checkpoint-{STEPS[2]}")
    ran = last.finish(timeout=900)
    assert ran.code == 0, ran.err
    return answers_of(runs.folder / "alone", swapped=None)


def assert_equal(
    swapped: dict[str, dict[tuple[str, int], Any]], alone: dict[str, dict[tuple[str, int], Any]]
) -> None:
    assert len({tuple(sorted(said.items())) for said in swapped.values()}) == 3
    assert swapped == alone


@pytest.mark.parametrize(
    ("name", "ending"), [("killed", signal.SIGKILL), ("ended", signal.SIGTERM)]
)
def test_a_run_of_checkpoints_that_is_killed_or_ended_leaves_nothing_under_another_models_name(
    runs: Runs, alone: dict[str, dict[tuple[str, int], Any]], name: str, ending: signal.Signals
):
    swapped = runs.command(name, f"{runs.folder}/run/checkpoint-*")

    with swapped.started() as run:
        wait_until(lambda: runs.has_begun_the_second(name), 900, "no second checkpoint's answer")
        run.process.send_signal(ending)
        assert run.wait(120).code != 0
    swapped.assert_nothing_left()
    runs.assert_interrupted(name)
    time.sleep(0.5)
    done = swapped.finish(timeout=900)

    assert done.code == 0, done.err
    assert_equal(answers_of(runs.folder / name, swapped=STEPS[1]), alone)


def test_a_run_of_checkpoints_that_prefect_cancels_leaves_nothing_under_another_models_name(
    runs: Runs, alone: dict[str, dict[tuple[str, int], Any]], client: SyncPrefectClient
):
    name = "cancelled"
    parameters = runs.parameters(f"{runs.folder}/run/checkpoint-*")

    cancelled_and_run_again(
        client,
        runs.of(name, []),
        parameters | {"answers": str(runs.folder / name)},
        lambda: runs.has_begun_the_second(name),
        lambda: runs.assert_interrupted(name),
    )

    assert_equal(answers_of(runs.folder / name, swapped=STEPS[1]), alone)
