"""Kill or end a run of several checkpoints in one engine while it answers for a later one, and compare with a start for each."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from perf.workloads import checkpoint
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from tests.command_line import ROOT, demo_parameters
from tests.crash.harness import Command, wait_until
from tests.stored import by_row

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.prefect,
    pytest.mark.slow,  # seven engine starts
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


def test_a_run_of_checkpoints_that_is_killed_or_ended_leaves_nothing_under_another_models_name(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    demo = demo_parameters()
    dataset = demo["datasets"][0]
    dataset["path"] = str(ROOT / dataset["path"])
    folders = [
        checkpoint(demo_model, tmp_path / "run" / f"checkpoint-{step}", seed=step) for step in STEPS
    ]
    cache = str(tmp_path / "cache")

    def command(name: str, *models: str) -> Command:
        file = tmp_path / f"{name}.yaml"
        given: dict[str, Any] = {"model": models[0], "limit": LIMIT, "datasets": [dataset]}
        given["engine"] = {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 4}
        file.write_text(yaml.safe_dump(given | {"more_models": [*models[1:]]}))
        where = tmp_path / name.partition("-")[0]
        arguments = ["generate", "--config", str(file), "--answers", str(where)]
        environment = {
            "PREFECT_API_URL": prefect_server,
            "REGRADE_PUBLISH_SECONDS": "0.5",
            "REGRADE_CACHE": cache,
        }
        return Command(tmp_path / f"home-{name}", arguments, environment)

    # Each of the first two is answered by a new engine, because the second one's proves that weights can be replaced.
    proven = command("alone-proven", *map(str, folders[:2])).finish(timeout=900)
    assert proven.code == 0, proven.err
    assert "models like these share an engine" in proven.err

    # Prefect cancels a run by SIGTERM.
    for name, ending in (("killed", signal.SIGKILL), ("ended", signal.SIGTERM)):
        swapped = command(name, f"{tmp_path}/run/checkpoint-*")
        repository = LocalRepository(tmp_path / name)

        def has_begun_the_second(repository: LocalRepository = repository) -> bool:
            head = repository.head()
            return head is not None and len(list_sets(repository, head)) > 1

        with swapped.started() as run:
            wait_until(has_begun_the_second, 900, "no answer of the second checkpoint came")
            run.process.send_signal(ending)
            assert run.wait(120).code != 0
        swapped.assert_nothing_left()
        stored = list_sets(repository, repository.head() or "")
        assert len(stored) < 3 or any(s.manifest.state == "incomplete" for s in stored)
        time.sleep(0.5)
        done = swapped.finish(timeout=900)
        assert done.code == 0, done.err
    alone = command("alone-last", str(folders[2])).finish(timeout=900)
    assert alone.code == 0, alone.err

    other = answers_of(tmp_path / "alone", swapped=None)
    for name in ("killed", "ended"):
        one = answers_of(tmp_path / name, swapped=STEPS[1])
        assert len({tuple(sorted(said.items())) for said in one.values()}) == 3
        assert one == other
