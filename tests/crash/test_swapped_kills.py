"""Kill, end or cancel a run of several checkpoints in one engine while it answers for a later one, and compare with a start for each."""

import signal
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient

from perf.workloads import checkpoint
from regrade.answers.local import LocalRepository
from tests.crash.harness import Command, answer_sets, demo_datasets
from tests.crash.runs import ENDINGS, Runs
from tests.stored import by_row, sets_in

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.prefect,
    pytest.mark.slow,  # nine engine starts
    pytest.mark.timeout(2400),
]
LIMIT = 120
STEPS = (100, 200, 300)
Texts = dict[str, dict[tuple[str, int], Any]]
"""Texts by model and by question and repeat."""


def answers_of(folder: Path, *, swapped: int | None) -> Texts:
    """Return the texts of each answer set, by its model.

    Args:
        folder: Their repository.
        swapped: Step whose first answers were given by weights that took the place of others; None: each model had a start.
    """
    found = {}
    for answers in sets_in(folder):
        manifest = answers.manifest
        assert manifest.state == "complete"
        said = {key: row["text"] for key, row in by_row(answers, "text").items()}
        assert len(said) == LIMIT
        weights = [session.weights for session in manifest.sessions]
        memory = {loaded.memory for loaded in weights if loaded is not None}
        assert len(memory) == 1
        assert memory != {None}
        name = manifest.specification.model.name
        replaced = [loaded is not None and loaded.replaced for loaded in weights]
        if swapped is None:
            assert not any(replaced)
        elif name.endswith(f"-{swapped}"):
            assert replaced[0], "the engine was started anew"
        found[name] = said
    return found


def parameters(*models: str) -> dict[str, Any]:
    return {
        "model": models[0],
        "more_models": [*models[1:]],
        "limit": LIMIT,
        "datasets": demo_datasets()[:1],
        "engine": {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 4},
    }


@pytest.fixture(scope="module")
def runs(demo_model: Path, prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Three checkpoints, of which the first two are answered by an engine each, because the second's proves that weights can be replaced."""
    folder = tmp_path_factory.mktemp("swapped")
    models = [folder / "run" / f"checkpoint-{step}" for step in STEPS]
    for step, model in zip(STEPS, models, strict=True):
        checkpoint(demo_model, model, seed=step)
    runs = Runs(folder, prefect_server)
    proven = runs.finish("alone-proven", parameters(*map(str, models[:2])))
    assert "models like these share an engine" in proven.err
    return runs


@pytest.fixture(scope="module")
def alone(runs: Runs) -> Texts:
    """Texts of checkpoints that had a start each."""
    runs.finish("alone-last", parameters(f"{runs.folder}/run/checkpoint-{STEPS[2]}"))
    return answers_of(runs.folder / "alone", swapped=None)


@ENDINGS
def test_a_run_of_checkpoints_that_is_interrupted_leaves_nothing_under_another_models_name(
    runs: Runs, alone: Texts, client: SyncPrefectClient, name: str, ending: signal.Signals | None
):
    where = runs.folder / name

    def has_begun_the_second(_: Command) -> bool:
        return len(answer_sets(LocalRepository(where))) > 1

    def look(_: Command) -> None:
        states = [answers.manifest.state for answers in sets_in(where)]
        assert len(states) < 3 or "incomplete" in states

    given = parameters(f"{runs.folder}/run/checkpoint-*")
    runs.interrupt_and_finish(name, given, ending, client, has_begun_the_second, look)

    texts = answers_of(where, swapped=STEPS[1])
    assert len({tuple(sorted(said.items())) for said in texts.values()}) == 3
    assert texts == alone
