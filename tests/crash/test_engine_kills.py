"""Kill processes of a local vLLM engine (SIGKILL) while it generates."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.answers.local import LocalRepository
from regrade.settings.turn_ids import turn_of
from tests.architectures import seeing_model
from tests.conversations import write_turns
from tests.crash.harness import (
    ENGINE,
    Account,
    Command,
    Started,
    answer_set,
    config,
    generating,
    spooled,
    stored,
    tell,
    wait_until,
    whole_rows,
)
from tests.records.test_images import file_of

pytestmark = [pytest.mark.vllm, pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(4800)]

LIMIT = 240
SEEN = 60
"""Questions with pictures, and turns of conversations, few enough for a busy machine."""
LOADED_SECONDS = 1200.0
"""Longest time until an engine is loaded, on a machine that does other work."""
FRESH = "Retrying once with a new engine"
SUPERVISOR, WORKER, CORE = (
    "regrade.processes.supervisor",
    "regrade.engines.vllm_process.worker",
    "multiprocessing.forkserver",
)
"""vLLM's engine core is a fork of Python's fork server (`forked.py`), whose name it keeps; the server is older."""
COMPUTING = "VLLM::"
"""Beginning of the names of vLLM's own processes: which there are is its choice, another one for models that see."""


Make = Callable[..., Command]


@pytest.fixture
def make(demo_model: Path, prefect_server: str, tmp_path: Path) -> Make:
    """Builds commands that keep some requests in flight; the other parameters are those of a configuration."""

    def make(in_flight: int, **parameters: object) -> Command:
        engine = ENGINE | {"max_num_seqs": in_flight}
        path = config(tmp_path, engine, **({"model": str(demo_model)} | parameters))
        return generating(path, tmp_path / "answers", tmp_path / "here", prefect_server)

    return make


@pytest.fixture
def command(make: Make) -> Command:
    return make(4, limit=LIMIT)


@pytest.fixture
def short_folder() -> Iterator[str]:
    """A folder for the engine's sockets, whose paths are limited to 107 characters."""
    with tempfile.TemporaryDirectory(prefix="rg-") as folder:
        yield folder


def repository_of(command: Command) -> LocalRepository:
    """The answers of a command, as a new process reads them."""
    return LocalRepository(Path(command.arguments[-1]))


def kill_engine(command: Command, run: Started, process: str, moment: float) -> None:
    """Kill a process of the running engine after its first answers."""
    wait_until(
        lambda: bool(spooled(command.spool)) or run.process.poll() is not None,
        LOADED_SECONDS,
        "no answer came",
    )
    time.sleep(moment)
    found = command.processes(process)
    assert found, f"no process of {process}"
    for pid in {SUPERVISOR: [min(found)], CORE: [max(found)]}.get(process, found):
        os.kill(pid, signal.SIGKILL)


def kill_both_engines(command: Command, account: Account, process: str, moment: float) -> None:
    """Kill the engine and its replacement; the command fails and publishes the finished answers."""
    with command.started() as run:
        kill_engine(command, run, process, moment)
        run.until(FRESH, LOADED_SECONDS)
        kill_engine(command, run, process, moment)
        ran = run.wait(LOADED_SECONDS)
    assert ran.code == 1, ran.err
    assert ran.err.count(FRESH) == 1
    assert "The engine ended before its work was done" in ran.err
    assert "engine's output is in" in ran.err
    command.assert_nothing_left()
    account.take(repository_of(command), command.spool, kills=2)
    assert 0 < len(stored(repository_of(command))) < LIMIT
    assert not spooled(command.spool), "finished answers are published"


def finish(command: Command, account: Account, count: int) -> None:
    done = command.finish(timeout=LOADED_SECONDS)
    assert done.code == 0, done.err
    assert "continuing" in done.err
    account.take(repository_of(command), command.spool)
    tell(account)
    whole_rows(repository_of(command), count)
    account.assert_nothing_lost_or_made_twice()
    command.assert_nothing_left()


@pytest.mark.parametrize("seed", [1, 2])
def test_any_process_of_the_engine_may_be_killed_and_the_run_goes_on_when_run_again(
    command: Command, account: Account, seed: int
):
    tell(f"seed {seed}")
    rng = random.Random(seed)
    for process in rng.sample([SUPERVISOR, WORKER, CORE], 2):
        kill_both_engines(command, account, process, rng.uniform(0, 0.2))
    finish(command, account, LIMIT)


def rows_after_kills(command: Command, account: Account) -> list[dict[str, Any]]:
    """Kill the engine, then the run with its next engine, each after its first answers; run again, and return all rows."""
    with command.started() as run:
        kill_engine(command, run, COMPUTING, 0)
        assert run.process.poll() is None, "killed before its end"
        run.until(FRESH, LOADED_SECONDS)
        before = len(spooled(command.spool))
        wait_until(lambda: len(spooled(command.spool)) > before, LOADED_SECONDS, "no more answers")
        run.kill()
    assert before < SEEN
    account.take(repository_of(command), command.spool, kills=2)

    finish(command, account, SEEN)

    columns = ["sample_id", "index", "prompt", "text", "images", "finish_reason", "error"]
    batches = answer_set(repository_of(command)).batches(columns)
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_run_with_pictures_goes_on_after_its_engine_and_the_run_itself_were_killed(
    make: Make, demo_model: Path, account: Account, tmp_path: Path
):
    shown = [
        {
            "question": f"What is it? Number {number}.",
            "picture": {"bytes": file_of("PNG", size=(64, 64 + number)), "path": None}
            if number % 3
            else None,
            "answer": "1",
        }
        for number in range(SEEN)
    ]
    pq.write_table(pa.Table.from_pylist(shown), tmp_path / "seen.parquet")
    seen = {
        "name": "seen",
        "path": str(tmp_path / "seen.parquet"),
        "prompt": "{{ question }}{% if picture %}{{ picture }}{% endif %}",
        "target_column": "answer",
        "format": "chat",
        "scorer": "number",
        "sampling": {"max_tokens": 48},  # long enough to be killed in between
    }
    model = seeing_model("qwen3_vl", demo_model, tmp_path / "model")

    rows = rows_after_kills(make(2, datasets=[seen], model=str(model)), account)

    assert all(row["error"] is None for row in rows)
    assert all((row["images"] is None) is (row["index"] % 3 == 0) for row in rows)
    assert all(f"<image:{name}>" in row["prompt"] for row in rows for name in row["images"] or ())


def test_conversations_go_on_after_their_engine_and_the_run_itself_were_killed(
    make: Make, account: Account, tmp_path: Path
):
    talks = [[f"Number {n}?", "And the next?", "Again?"] for n in range(SEEN // 3)]
    talked = {
        "name": "talks",
        "path": str(write_turns(tmp_path / "talks.jsonl", *talks)),
        "turns_column": "turns",
        "sampling": {"max_tokens": 64, "stop": ["\n"]},
    }

    rows = rows_after_kills(make(2, datasets=[talked]), account)

    turns = {turn: row for row in rows if (turn := turn_of(row["sample_id"])) is not None}
    assert len(turns) == SEEN
    for turn, row in turns.items():
        before = [turns[earlier] for earlier in turn.earlier]
        # After an answer that was cut off, nothing is asked.
        assert (row["error"] is None) is all(asked["finish_reason"] == "stop" for asked in before)
        place = 0
        for asked in before if row["error"] is None else ():  # each answer once, in order
            place = row["prompt"].index(asked["text"], place) + 1
    assert any(turn.number == turn.of and row["error"] is None for turn, row in turns.items())


def test_a_second_engine_waits_until_the_killed_run_of_the_first_has_left_nothing(
    command: Command, tmp_path: Path, short_folder: str
):
    command.environment |= {"REGRADE_ENGINE_SLOTS": "1", "TMPDIR": short_folder}
    arguments = [*command.arguments[:-1], str(tmp_path / "other answers")]
    other = Command(tmp_path / "there", arguments, command.environment)
    with command.started() as first:
        first.until("is ready", 240)
        with other.started() as second:
            second.until("waiting for the engine of")
            assert f"(process {first.process.pid}, since" in second.err.read_text()
            assert not other.processes(WORKER)
            first.kill()
            ran = second.wait()
    assert ran.code == 0, ran.err
    whole_rows(repository_of(other), LIMIT)
    command.assert_nothing_left()
    other.assert_nothing_left()
