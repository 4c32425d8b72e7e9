"""Kill or end a run of several benchmarks in one stream of real vLLM, and compare with the benchmarks one after the other."""

import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from tests.command_line import DEMO, ROOT
from tests.crash.harness import Command, spooled, wait_until
from tests.stored import by_row

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.prefect,
    pytest.mark.slow,  # six engine starts
    pytest.mark.timeout(1800),
]
LIMIT, REPEATS = 200, 2


def answers_of(folder: Path) -> dict[str, dict[tuple[str, int], Any]]:
    """Return the rows of each answer set, by its id."""
    repository = LocalRepository(folder)
    found = {}
    for answers in list_sets(repository, repository.head() or ""):
        manifest = answers.manifest
        assert manifest.state == "complete"
        rows = LIMIT * manifest.specification.repeats
        assert sum(session.rows for session in manifest.sessions) == manifest.rows == rows
        found[manifest.answer_set_id] = by_row(answers, "text", "label_logprobs")
    return found


def test_a_pooled_run_that_is_killed_or_ended_goes_on_and_equals_the_benchmarks_one_after_the_other(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    demo = yaml.safe_load((DEMO / "demo.yaml").read_text())
    for entry in demo["datasets"]:
        entry["path"] = str(ROOT / entry["path"])

    def command(name: str, *numbers: int) -> Command:
        file = tmp_path / f"{name}.yaml"
        given = {"model": str(demo_model), "limit": LIMIT}
        given["datasets"] = [demo["datasets"][number] for number in numbers]
        given |= {"repeats": REPEATS, "sampling": {"temperature": 0.7}}
        given["engine"] = {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 8}
        file.write_text(yaml.safe_dump(given))
        where = tmp_path / name.partition("-")[0]
        arguments = ["generate", "--config", str(file), "--answers", str(where)]
        environment = {"PREFECT_API_URL": prefect_server, "REGRADE_PUBLISH_SECONDS": "0.5"}
        return Command(tmp_path / f"home-{name}", arguments, environment)

    # Prefect cancels a run by SIGTERM.
    for name, ending in (("killed", signal.SIGKILL), ("ended", signal.SIGTERM)):
        pooled = command(name, 0, 1)

        def has_answered(pooled: Command = pooled) -> bool:
            with suppress(FileNotFoundError):
                return len(spooled(pooled.spool)) > 20
            return True  # a part of the answers has just been published

        with pooled.started() as run:
            wait_until(has_answered, 600, "no answer came")
            time.sleep(0.5)
            run.process.send_signal(ending)
            assert run.wait(120).code != 0
        pooled.assert_nothing_left()
        done = pooled.finish(timeout=600)
        assert done.code == 0, done.err
        assert "continuing" in done.err
    for name, number in (("alone-arithmetic", 0), ("alone-choice", 1)):
        ran = command(name, number).finish(timeout=600)
        assert ran.code == 0, ran.err

    other = answers_of(tmp_path / "alone")
    for name in ("killed", "ended"):
        one = answers_of(tmp_path / name)
        assert one.keys() == other.keys()
        assert {len(said) for said in one.values()} & {LIMIT * REPEATS}
        for answer_set_id, said in one.items():
            assert said.keys() == other[answer_set_id].keys()
            for key, row in said.items():
                assert row["text"] == other[answer_set_id][key]["text"]
                expected = other[answer_set_id][key]["label_logprobs"]
                assert row["label_logprobs"] == pytest.approx(expected, abs=1e-4)
