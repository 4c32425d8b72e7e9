"""Kill, end or cancel a run of several benchmarks in one stream of real vLLM, and compare with the benchmarks one after the other."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from tests.crash.harness import Command, answer_sets, demo_datasets, spooled
from tests.crash.runs import ENDINGS, Runs
from tests.stored import by_row, sets_in

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
    found = {}
    for answers in sets_in(folder):
        manifest = answers.manifest
        assert manifest.state == "complete"
        rows = LIMIT * manifest.specification.repeats
        assert sum(session.rows for session in manifest.sessions) == manifest.rows == rows
        found[manifest.answer_set_id] = by_row(answers, "text", "label_logprobs")
    return found


def parameters(model: Path, *numbers: int) -> dict[str, Any]:
    """Return the parameters of a run of some of the demo's benchmarks."""
    datasets = demo_datasets()
    return {
        "model": str(model),
        "limit": LIMIT,
        "datasets": [datasets[number] for number in numbers],
        "repeats": REPEATS,
        "sampling": {"temperature": 0.7},
        "engine": {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 8},
    }


@pytest.fixture(scope="module")
def runs(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("pooled"), prefect_server)


@pytest.fixture(scope="module")
def alone(runs: Runs, demo_model: Path) -> Rows:
    """Rows of the benchmarks, one after the other, by answer set."""
    for name, number in (("alone-arithmetic", 0), ("alone-choice", 1)):
        runs.finish(name, parameters(demo_model, number))
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


def texts_and_latencies(sets: list[AnswerSet]) -> dict[tuple[str, int], Any]:
    return {
        key: (row["text"], row["latency"])
        for answers in sets
        for key, row in by_row(answers, "text", "latency").items()
    }


@ENDINGS
def test_a_pooled_run_that_is_interrupted_loses_nothing_and_goes_on_to_the_sets_of_the_benchmarks_one_after_the_other(
    runs: Runs,
    alone: Rows,
    demo_model: Path,
    client: SyncPrefectClient,
    name: str,
    ending: signal.Signals | None,
):
    where = runs.folder / name
    kept: dict[tuple[str, int], Any] = {}

    def answered(command: Command) -> dict[tuple[str, int], Any]:
        rows = spooled(command.spool)  # first: a row is published before it leaves the spool
        return rows | texts_and_latencies(answer_sets(LocalRepository(where)))

    def has_answered(command: Command) -> bool:
        with suppress(FileNotFoundError):  # a row is just leaving the spool
            return len(answered(command)) > 20
        return False

    def look(command: Command) -> None:
        kept.update(answered(command))
        assert 20 < len(kept) < 3 * LIMIT

    given = parameters(demo_model, 0, 1)
    runs.interrupt_and_finish(name, given, ending, client, has_answered, look)

    assert_equal(answers_of(where), alone)
    rows = texts_and_latencies(sets_in(where))
    assert [key for key in kept if rows[key] != kept[key]] == [], "answers were generated again"
    firsts = [answers.manifest.sessions[0] for answers in sets_in(where)]
    assert {(session.sets, session.shared) for session in firsts} == {(2, True)}
    # One of the sets may have been complete before the end.
    assert None in [session.speed for session in firsts], "what did not reach its end has no speed"
