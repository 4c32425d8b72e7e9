"""Kill the command and its publisher (SIGKILL) at random times, and restart them until they finish."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regrade.answers.base import Repository
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from tests.command_line import ROOT
from tests.crash.conftest import Make, Reference
from tests.crash.harness import Account, Command, accuracy, answer_set, tell, whole_rows
from tests.hub_server.faults import Stall
from tests.hub_server.fixtures import Hub

pytestmark = pytest.mark.prefect
SLOW = [pytest.mark.slow, pytest.mark.timeout(900)]


def check(account: Account, command: Command, repository: Repository, reference: Reference) -> None:
    """Finish the command and compare with a run without a crash."""
    done = command.finish()
    assert done.code == 0, done.err
    account.take(repository, command.spool)
    tell(account)
    account.assert_nothing_lost_or_made_twice()
    rows = whole_rows(repository, reference.rows)
    assert {key: text for key, (text, _) in rows.items()} == reference.texts
    assert accuracy(repository) == reference.accuracy
    sessions = answer_set(repository).manifest.sessions
    assert sum(session.rows for session in sessions) == reference.rows
    assert all(session.generate_seconds > 0 for session in sessions)
    assert not list(command.spool.glob("*/*/*"))
    command.assert_nothing_left()


def kill_in_a_commit(command: Command, hub: Hub, rng: random.Random) -> None:
    """Kill during a request of a commit, before or after it takes effect."""
    path = rng.choice(["/commit/main", "/commit/main", "/preupload/main", "/lfs/", "objects/batch"])
    method = "PUT" if path == "/lfs/" else "POST"
    hub.fail(
        method, path, Stall(0.5, afterwards=rng.random() < 0.5), count=1, after=rng.randrange(3)
    )
    before = hub.requests(method, path)
    wanted = before + 1 + rng.randrange(2)
    with command.started() as run:
        while run.process.poll() is None and hub.requests(method, path) < wanted:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.5))
        run.kill()
    hub.server.forget()
    command.assert_nothing_left()


@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 2), *(pytest.param(seed, 5, marks=SLOW) for seed in range(1, 9))]
)
def test_a_command_that_is_killed_several_times_loses_and_doubles_nothing(
    account: Account,
    on_hub: Make,
    hub: Hub,
    hub_repository: HubRepository,
    reference: Reference,
    seed: int,
    kills: int,
):
    tell(f"seed {seed}")
    rng = random.Random(seed)
    command = on_hub()
    for number in range(kills):
        if number % 2:
            kill_in_a_commit(command, hub, rng)
        else:
            command.kill_after(rng.uniform(0, 1.5))
        account.take(hub_repository, command.spool, kills=1)
    assert account.known
    check(account, command, hub_repository, reference)


PUBLISHER = """
import sys
from pathlib import Path
from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import find_set
from regrade.answers.spool import Spool
from tests.builders import description, row

folder, total, run = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
repository = LocalRepository(folder / "answers")
asked = description(total)
with Spool(folder / "spool" / "repository" / "set") as spool:
    stored = find_set(repository, asked.specification, repository.head())
    done = spool.states().done | (stored.states().done if stored else set())
    missing = [n for n in range(total) if (f"sample-{n:05d}", 0) not in done]
    print("begins", flush=True)
    for start in range(0, len(missing), 5):
        spool.append([row(n, text=f"{run} {n}") for n in missing[start : start + 5]])
        print("reported", *missing[start : start + 5], flush=True)
        publish_answers(repository, spool, asked)
    publish_answers(repository, spool, asked)
"""


@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 4), *(pytest.param(seed, 10, marks=SLOW) for seed in range(1, 4))]
)
def test_a_publisher_that_is_killed_in_the_middle_of_commits_loses_and_doubles_nothing(
    account: Account, tmp_path: Path, seed: int, kills: int
):
    """Its output tells which rows it reported as done."""
    tell(f"seed {seed}")
    rng = random.Random(seed)
    total = 60 * kills
    reported: dict[int, int] = {}
    for run in range(kills + 1):
        arguments = [sys.executable, "-c", PUBLISHER, str(tmp_path), str(total), str(run)]
        with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            if run < kills:
                time.sleep(rng.uniform(0, 0.6))
                process.kill()
                account.kills += 1
            lines += process.stdout.readlines()
        for line in lines:
            numbers = [int(word) for word in line.split()[1:]]
            assert not reported.keys() & numbers, "a reported row was generated again"
            reported |= dict.fromkeys(numbers, run)
        account.take(LocalRepository(tmp_path / "answers"), tmp_path / "spool")
        assert {(f"sample-{n:05d}", 0) for n in reported} <= account.known.keys()
    tell(account)
    assert process.returncode == 0
    rows = whole_rows(LocalRepository(tmp_path / "answers"), total)
    assert all(rows[f"sample-{n:05d}", 0][0] == f"{run} {n}" for n, run in reported.items())
    account.assert_nothing_lost_or_made_twice()
