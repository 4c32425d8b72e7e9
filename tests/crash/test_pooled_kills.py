"""Kill, end or cancel a run of several benchmarks in one stream of real vLLM, and compare with the benchmarks one after the other."""

import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet, list_sets
from tests.command_line import ROOT, demo_parameters
from tests.crash.harness import Command, spooled, wait_until
from tests.crash.on_worker import cancelled_and_run_again
from tests.stored import by_row

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.prefect,
    pytest.mark.slow,  # eight engine starts
    pytest.mark.timeout(3600),
]
LIMIT, REPEATS = 120, 2


Rows = dict[str, dict[tuple[str, int], Any]]
"""Rows by answer set and by question and repeat."""


def answers_of(folder: Path) -> Rows:
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


@dataclass(frozen=True)
class Runs:
    """Commands on a Prefect server, below a folder."""

    folder: Path
    model: Path
    server: str

    def parameters(self, *numbers: int) -> dict[str, Any]:
        """Return the parameters of a run of some of the demo's benchmarks."""
        demo = demo_parameters()
        for entry in demo["datasets"]:
            entry["path"] = str(ROOT / entry["path"])
        return {
            "model": str(self.model),
            "limit": LIMIT,
            "datasets": [demo["datasets"][number] for number in numbers],
            "repeats": REPEATS,
            "sampling": {"temperature": 0.7},
            "engine": {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 8},
        }

    def command(self, name: str, *numbers: int) -> Command:
        """Return a command that generates; what comes before `-` in its name is the folder of its answers."""
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(self.parameters(*numbers)))
        where = self.folder / name.partition("-")[0]
        return self.of(name, ["generate", "--config", str(file), "--answers", str(where)])

    def of(self, name: str, arguments: list[str]) -> Command:
        environment = {"PREFECT_API_URL": self.server, "REGRADE_PUBLISH_SECONDS": "0.5"}
        return Command(self.folder / f"home-{name}", arguments, environment)


@pytest.fixture(scope="module")
def runs(demo_model: Path, prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("pooled"), demo_model, prefect_server)


@pytest.fixture(scope="module")
def alone(runs: Runs) -> Rows:
    """Rows of the benchmarks, one after the other, by answer set."""
    for name, number in (("alone-arithmetic", 0), ("alone-choice", 1)):
        ran = runs.command(name, number).finish(timeout=1200)
        assert ran.code == 0, ran.err
    return answers_of(runs.folder / "alone")


def assert_equal(one: Rows, other: Rows) -> None:
    assert one.keys() == other.keys()
    assert {len(said) for said in one.values()} & {LIMIT * REPEATS}
    for answer_set_id, said in one.items():
        assert said.keys() == other[answer_set_id].keys()
        for key, row in said.items():
            assert row["text"] == other[answer_set_id][key]["text"]
            expected = other[answer_set_id][key]["label_logprobs"]
            assert row["label_logprobs"] == pytest.approx(expected, abs=1e-4)


def has_answered(command: Command) -> bool:
    with suppress(FileNotFoundError):
        return len(spooled(command.spool)) > 20
    return True  # a part of the answers has just been published


@pytest.mark.parametrize(
    ("name", "ending"), [("killed", signal.SIGKILL), ("ended", signal.SIGTERM)]
)
def test_a_pooled_run_that_is_killed_or_ended_goes_on_and_equals_the_benchmarks_one_after_the_other(
    runs: Runs, alone: Rows, name: str, ending: signal.Signals
):
    pooled = runs.command(name, 0, 1)

    with pooled.started() as run:
        wait_until(lambda: has_answered(pooled), 1200, "no answer came")
        time.sleep(0.5)
        run.process.send_signal(ending)
        assert run.wait(120).code != 0
    pooled.assert_nothing_left()
    done = pooled.finish(timeout=1200)

    assert done.code == 0, done.err
    assert "continuing" in done.err
    assert_equal(answers_of(runs.folder / name), alone)
    repository = LocalRepository(runs.folder / name)
    for answers in list_sets(repository, repository.head() or ""):
        ended = answers.manifest.sessions[0]
        assert (ended.sets, ended.speed, ended.shared) == (2, None, True)


def test_a_pooled_run_that_prefect_cancels_loses_nothing_and_goes_on_to_the_same_sets(
    runs: Runs, alone: Rows, client: SyncPrefectClient
):
    where = runs.folder / "cancelled"
    worker = runs.of("cancelled", [])
    kept: dict[tuple[str, int], Any] = {}

    def look() -> None:
        repository = LocalRepository(where)
        head = repository.head()
        kept.update(spooled(worker.spool))
        for answers in [] if head is None else list_sets(repository, head):
            kept.update(texts_and_latencies(answers))
        assert 20 < len(kept) < 3 * LIMIT

    cancelled_and_run_again(
        client,
        worker,
        runs.parameters(0, 1) | {"answers": str(where)},
        lambda: has_answered(worker),
        look,
    )
    repository = LocalRepository(where)
    assert_equal(answers_of(where), alone)
    rows: dict[tuple[str, int], Any] = {}
    for answers in list_sets(repository, repository.head() or ""):
        rows |= texts_and_latencies(answers)
    assert [key for key in kept if rows[key] != kept[key]] == [], "answers were generated again"


def texts_and_latencies(answers: AnswerSet) -> dict[tuple[str, int], Any]:
    return {
        key: (row["text"], row["latency"])
        for key, row in by_row(answers, "text", "latency").items()
    }
