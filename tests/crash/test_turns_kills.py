"""Kill the command in the middle of conversations, and compare with a run that nothing stopped."""

import hashlib
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from regrade.answers.local import LocalRepository
from regrade.answers.verify import verify
from regrade.scoring.score import score_answers
from regrade.settings.turn_ids import turn_of
from tests.answering import answering, said
from tests.conversations import write_turns
from tests.crash.harness import Account, answer_set, generating, tell

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
        given = {
            "model": "demo",
            "engine": {"kind": "openai", "base_url": url, "max_concurrency": 2, "max_retries": 1},
            "datasets": [{"name": "talks", "path": str(path), "turns_column": "turns"}],
        }
        file = folder / "config.yaml"
        file.write_text(yaml.safe_dump(given))
        yield file


def rows_of(repository: LocalRepository) -> dict[str, tuple[str, str]]:
    """Prompt and text of each turn, by its sample id."""
    answers = answer_set(repository)
    assert answers is not None
    assert answers.manifest.state == "complete"
    rows = [
        row
        for batch in answers.batches(["sample_id", "prompt", "text"])
        for row in batch.to_pylist()
    ]
    assert len(rows) == TALKS * TURNS
    return {row["sample_id"]: (row["prompt"], row["text"]) for row in rows}


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
        with command.started() as run:
            run.until("is ready")
            time.sleep(rng.uniform(0.3, 1.0))
            run.kill()
        command.assert_nothing_left()
        account.kills += 1
        # A new process reads the repository, as a new machine does.
        account.take(LocalRepository(repository.folder), command.spool)
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
    assert not verify(again, again.head() or "").problems
    assert not list(command.spool.glob("*/*/*"))
    scored = [answer_set(known) for known in (unbroken, again)]
    summaries = [score_answers(one, "exact").file.summary for one in scored if one is not None]
    assert summaries[0] == summaries[1]
    assert summaries[0].overall.samples == TALKS
