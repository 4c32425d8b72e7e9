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


def run(
    folder: Path,
    *chains: tuple[int, int, int, int],
    options: tuple[str, ...] = (),
    timeout: float = 290,
) -> list[dict[str, Any]]:
    """Return the accounts of chains, each with its seed, machines, kills and questions."""
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
    for account, (_, _, _, questions) in zip(found, chains, strict=True):
        tell({name: value for name, value in account.items() if name != "ended"})
        assert account["codes"].keys() <= {"0", "-9", "-15", "143"}, done.stderr
        assert (account["rows"], account["lost"], account["doubled"]) == (questions, 0, 0)
        assert (account["state"], account["counted"]) == ("complete", questions)
        assert not account["problems"]
        assert not account["beyond"]
        assert account["in_flight"] <= BATCH * account["machines"]
    return found


@pytest.mark.slow
def test_four_machines_make_one_answer_set_and_one_of_them_completes_it(tmp_path: Path):
    questions = 800
    (found,) = run(tmp_path, (0, 4, 0, questions))
    assert [ended["state"] for ended in found["ended"]] == ["complete"] * 4
    assert sum(ended["ends_here"] for ended in found["ended"]) == 1
    # They share the work. Here a commit takes as long as a quarter of it, so that much is made twice at the end.
    assert found["asked"] < 4 * questions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "machines", "kills", "questions"),
    [(1, 3, 25, 1800), *((seed, 2 + seed, 60, 8000) for seed in range(2, 7))],
)
def test_machines_that_are_killed_many_times_lose_and_double_nothing(
    tmp_path: Path, seed: int, machines: int, kills: int, questions: int
):
    (found,) = run(tmp_path, (seed, machines, kills, questions))
    codes = found["codes"]
    assert found["kills"] == kills == sum(codes.get(code, 0) for code in ("-9", "-15", "143"))
    assert found["survivor_seconds"] > 0.5, "all was done before the last kill"


@pytest.mark.parametrize(
    "seeds",
    [range(1), pytest.param(range(1, 201), marks=[pytest.mark.slow, pytest.mark.timeout(4000)])],
    ids=len,
)
def test_machines_whose_locks_do_not_reach_each_other_lose_nothing(tmp_path: Path, seeds: range):
    """When each machine was granted every lock, 6 of 8 such runs lost rows with a locked log."""
    chains = [(seed, 4, 0, 600) for seed in seeds]
    for found in run(tmp_path, *chains, options=("--own-locks",), timeout=3600):
        assert found["codes"] == {"0": 4}


SIGNALS = int(os.environ.get("REGRADE_TEST_SIGNALS", "250"))
"""Signals in each place."""


@pytest.mark.slow
@pytest.mark.timeout(4000)
@pytest.mark.parametrize(
    "option",
    ["--clock", "--no-locks", "--own-locks", "--hub"],
    ids=["a folder, clocks that jump", "no locks", "locks of each machine", "a Hub that fails"],
)
def test_a_thousand_signals_in_four_places_lose_and_double_nothing(tmp_path: Path, option: str):
    kills = min(SIGNALS, 50)
    chains = [(seed, 3 + seed % 3, kills, 2000) for seed in range(SIGNALS // kills)]
    found = run(tmp_path, *chains, options=("--slow", option), timeout=3900)
    tell({name: sum(a[name] for a in found) for name in ("kills", "asked", "in_flight", "overlap")})
