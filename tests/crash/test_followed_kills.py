"""A folder that grows, evaluated by one engine that follows it with real vLLM; killed in between, and begun again."""

import json
from pathlib import Path
from typing import Any

import pytest

from perf.workloads import checkpoint
from regrade.checkpoints import ENDED
from tests.crash.harness import Command, config, wait_until
from tests.stored import sets_in

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.prefect,
    pytest.mark.slow,  # three engine starts
    pytest.mark.timeout(2400),
]
LIMIT = 16


def lines(out: Path) -> list[dict[str, Any]]:
    """Return the results that are printed so far."""
    found = [json.loads(line) for line in out.read_text().splitlines(keepends=True) if "\n" in line]
    return [line for line in found if line["ended"]]


def test_a_folder_that_grows_is_evaluated_by_one_engine_and_a_killed_run_goes_on_without_a_list(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    engine = {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 4}
    file = config(tmp_path, engine, limit=LIMIT)
    run = tmp_path / "run"

    def save(step: int) -> None:
        written = checkpoint(demo_model, tmp_path / f"written-{step}", seed=step)
        run.mkdir(exist_ok=True)
        written.rename(run / f"checkpoint-{step}")

    arguments = ["evaluate", "--model", f"{run}/checkpoint-*", "--config", str(file), "--json"]
    followed = Command(
        tmp_path / "home",
        [*arguments, "--answers", str(tmp_path / "answers"), "--follow", "900"],
        {"PREFECT_API_URL": prefect_server, "REGRADE_CACHE": str(tmp_path / "cache")},
    )
    save(100)
    save(200)
    with followed.started() as started:
        wait_until(lambda: len(lines(started.out)) == 2, 900, "the second was not evaluated")
        started.kill()

    save(300)
    with followed.started() as started:
        wait_until(lambda: len(lines(started.out)) == 3, 900, "the third was not evaluated")
        for number, step in ((4, 400), (5, 500)):
            save(step)
            wait_until(lambda n=number: len(lines(started.out)) == n, 900, "one was not evaluated")
        (run / ENDED).touch()
        done = started.wait(120)
    assert done.code == 0, done.err

    # The second's start proved that others may share an engine: the folder grows by two, and there is one start.
    assert "run/checkpoint-100: complete, nothing to generate" in done.err.replace("\n", "")
    for step in (400, 500):
        assert f"run/checkpoint-{step} shares the engine" in done.err
    assert done.err.count(" is ready after ") == 1
    printed = lines(started.out)
    assert [Path(line["model"]).name for line in printed] == [
        f"checkpoint-{step}" for step in (100, 200, 300, 400, 500)
    ]
    assert [line["error"] for line in printed] == [None] * 5
    assert [line["answer_sets"][0]["scores"][0]["metrics"]["n"] for line in printed] == [LIMIT] * 5
    weights = [s.manifest.sessions[-1].weights for s in sets_in(tmp_path / "answers")]
    assert len({loaded.memory for loaded in weights if loaded is not None}) == 5
