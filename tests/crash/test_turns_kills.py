"""Kill the command in the middle of conversations, and compare with a run that nothing stopped."""

import hashlib
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.scoring.score import score_answers
from regrade.settings.turn_ids import turn_of
from tests.answering import answering, said
from tests.conversations import write_turns
from tests.crash.harness import Account, answer_set, config, generating, tell, whole_rows
from tests.stored import by_row

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]
TALKS, TURNS = 40, 3


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Configuration for a server whose answers depend on the whole conversation."""
    folder = tmp_path_factory.mktemp("talking")
    talks = [[f"{number}.{turn}" for turn in range(TURNS)] for number in range(TALKS)]
    path = write_turns(folder / "talks.jsonl", *talks)

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        time.sleep(0.08)
        told = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()[:12]
        return 200, said(f"{body['messages'][-1]['content']} after {told}")

    with answering(reply, lambda: {"id": "demo", "root": "/served/demo"}) as url:
        engine = {"kind": "openai", "base_url": url, "max_concurrency": 2, "max_retries": 1}
        dataset = {"name": "talks", "path": str(path), "turns_column": "turns"}
        yield config(folder, engine, datasets=[dataset], model="demo")


def rows_of(repository: LocalRepository) -> dict[str, tuple[str, str]]:
    """Prompt and text of each turn, by its sample id."""
    whole_rows(repository, TALKS * TURNS)
    rows = by_row(answer_set(repository), "prompt", "text")
    return {turn: (row["prompt"], row["text"]) for (turn, _), row in rows.items()}


def test_a_run_killed_in_conversations_goes_on_and_equals_an_unbroken_one(
    account: Account, talking: Path, prefect_server: str, tmp_path: Path
):
    unbroken = LocalRepository(tmp_path / "unbroken")
    done = generating(talking, unbroken.folder, tmp_path / "other", prefect_server).finish()
    assert done.code == 0, done.err
    expected = rows_of(unbroken)
    repository = LocalRepository(tmp_path / "answers")
    home = tmp_path / "home"
    command = generating(
        talking, repository.folder, home, prefect_server, REGRADE_PUBLISH_SECONDS="0.2"
    )
    rng = random.Random(7)
    begun = 0
    for _ in range(3):
        command.kill_after(rng.uniform(0.3, 1.0))
        # A new process reads the repository, as a new machine does.
        account.take(LocalRepository(repository.folder), command.spool, kills=1)
        turns = [turn for key, _ in account.known if (turn := turn_of(key)) is not None]
        whole = {turn.question for turn in turns if turn.number == turn.of}
        begun += len({turn.question for turn in turns} - whole)
    tell(account)
    assert begun  # it was killed in the middle of conversations

    done = command.finish()

    assert done.code == 0, done.err
    again = LocalRepository(repository.folder)
    account.take(again, command.spool)
    account.assert_nothing_lost_or_made_twice()
    assert rows_of(again) == expected
    assert not list(command.spool.glob("*/*/*"))
    summaries = [
        score_answers(answer_set(known), "exact").file.summary for known in (unbroken, again)
    ]
    assert summaries[0] == summaries[1]
    assert summaries[0].overall.samples == TALKS
