"""Several machines generate one answer set, and are killed or stopped at random times: nothing is lost or doubled."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ROOT
from tests.crash.harness import tell
from tests.crash.machines import BATCH

QUIET, KILLED = (0, 4, 0, 800), (1, 3, 25, 1800)
"""Seed, machines, kills, questions."""


def run(
    folder: Path,
    *chains: tuple[int, int, int, int],
    options: tuple[str, ...] = (),
    timeout: float = 290,
) -> list[dict[str, Any]]:
    seconds = "0.05" if options else "0.15"  # between commits
    environment = os.environ | {"REGRADE_PUBLISH_SECONDS": seconds, "PYTHONPATH": str(ROOT)}
    arguments = [",".join(map(str, chain)) for chain in chains]
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.machines", *options, folder, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    for account in found:
        tell({name: value for name, value in account.items() if name != "ended"})
        assert account["codes"].keys() <= {"0", "-9", "-15", "143"}, done.stderr
    return found


def check(found: dict[str, Any], questions: int) -> None:
    assert (found["rows"], found["lost"], found["doubled"]) == (questions, 0, 0)
    assert found["state"] == "complete"
    assert found["counted"] == questions
    assert not found["problems"]
    assert not found["beyond"]
    assert found["in_flight"] <= BATCH * found["machines"]


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Accounts of both chains, from one process."""
    return run(tmp_path_factory.mktemp("machines"), QUIET, KILLED)


@pytest.mark.slow
def test_four_machines_make_one_answer_set_and_one_of_them_completes_it(
    accounts: list[dict[str, Any]],
):
    found, questions = accounts[0], QUIET[3]
    check(found, questions)
    assert [ended["state"] for ended in found["ended"]] == ["complete"] * 4
    assert sum(ended["ends_here"] for ended in found["ended"]) == 1
    # They share the work. Here a commit takes as long as a quarter of it, so that much is made twice at the end.
    assert found["asked"] < 4 * questions


@pytest.mark.slow
def test_machines_that_are_killed_twenty_five_times_lose_and_double_nothing(
    accounts: list[dict[str, Any]],
):
    found = accounts[1]
    check(found, KILLED[3])
    assert (
        found["kills"]
        == KILLED[2]
        == sum(found["codes"].get(code, 0) for code in ("-9", "-15", "143"))
    )
    assert found["survivor_seconds"] > 0.5, "all was done before the last kill"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_machines_may_be_killed_many_times(tmp_path: Path, seed: int):
    questions = 8000
    (found,) = run(tmp_path, (seed, 2 + seed, 60, questions))
    check(found, questions)


def check_own_locks(folder: Path, seeds: range) -> None:
    """Run four machines once for each seed; when each was granted every lock, 6 of 8 such runs lost rows with a locked log."""
    questions = 600
    for found in run(
        folder, *((seed, 4, 0, questions) for seed in seeds), options=("--own-locks",), timeout=3600
    ):
        check(found, questions)
        assert found["codes"] == {"0": 4}


def test_machines_whose_locks_do_not_reach_each_other_lose_nothing(tmp_path: Path):
    check_own_locks(tmp_path, range(1))


@pytest.mark.slow
@pytest.mark.timeout(4000)
def test_machines_whose_locks_do_not_reach_each_other_lose_nothing_in_two_hundred_runs(
    tmp_path: Path,
):
    check_own_locks(tmp_path, range(1, 201))


SIGNALS = int(os.environ.get("REGRADE_TEST_SIGNALS", "250"))
"""Signals in each place."""


@pytest.mark.slow
@pytest.mark.timeout(4000)
@pytest.mark.parametrize(
    "options",
    [("--clock",), ("--no-locks",), ("--own-locks",), ("--hub",)],
    ids=["a folder, clocks that jump", "no locks", "locks of each machine", "a Hub that fails"],
)
def test_a_thousand_signals_in_four_places_lose_and_double_nothing(
    tmp_path: Path, options: tuple[str, ...]
):
    questions, kills = 2000, min(SIGNALS, 50)
    chains = [(seed, 3 + seed % 3, kills, questions) for seed in range(SIGNALS // kills)]
    found = run(tmp_path, *chains, options=("--slow", *options), timeout=3900)
    for account in found:
        check(account, questions)
    tell({name: sum(a[name] for a in found) for name in ("kills", "asked", "in_flight", "overlap")})
