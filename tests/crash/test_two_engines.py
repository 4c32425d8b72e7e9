"""Two machines with a real engine each make one answer set; one of them is killed (SIGKILL) again and again."""

import random
import time
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from tests.command_line import DEMO
from tests.crash.harness import (
    ENGINE,
    Account,
    Command,
    answer_set,
    config,
    many_questions,
    stored,
    tell,
    whole_rows,
)

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1500)]
KILLS = 5
QUESTIONS = 4500
ENGINE_CORE = "multiprocessing.forkserver"
"""Process of the survivor's engine that is stopped while the other machine loads its engine: loading takes 15 to 120 s, depending
on other work, in which the survivor might answer all questions alone."""


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_engine_that_is_left_completes_what_another_began(
    account: Account, prefect_server: str, tmp_path: Path, seed: int
):
    rng = random.Random(seed)
    repository = LocalRepository(tmp_path / "answers")
    job_file = config(
        tmp_path,
        ENGINE,
        questions=many_questions(tmp_path, QUESTIONS),
        model=str(DEMO / "regrade-demo"),
        sampling={"max_tokens": 48},
    )

    def machine(number: int) -> Command:
        return Command(
            tmp_path / f"machine-{number}",
            [
                *("generate", "--config", str(job_file)),
                *("--answers", repository.uri, "--share", f"{number}/2"),
            ],
            {
                "PREFECT_API_URL": prefect_server,
                "REGRADE_PUBLISH_SECONDS": "1",
                "VLLM_CPU_OMP_THREADS_BIND": str(number - 1),
            },
        )

    survivor, victim = machine(1), machine(2)
    with survivor.started() as working:
        working.until("is ready", timeout=400)
        for number in range(KILLS):
            with victim.started() as run:
                if number % 2 == 0:
                    with survivor.frozen(ENGINE_CORE):
                        run.until("is ready", timeout=400)
                    time.sleep(rng.uniform(0.5, 8))
                else:
                    time.sleep(rng.uniform(0, 25))  # imports, plan, load
                assert run.process.poll() is None, run.err.read_text()
                run.kill()
            assert working.process.poll() is None, "the survivor was done before the last kill"
            killed, missing = time.monotonic(), QUESTIONS - len(stored(repository))
            victim.assert_nothing_left()
            account.take(repository, victim.spool, kills=1)
            tell(f"seed {seed}: {account}")
        done = working.wait(900)
    seconds = time.monotonic() - killed
    assert done.code == 0, done.err
    account.take(repository, victim.spool)

    sessions = answer_set(repository).manifest.sessions
    by_session = sorted((session.rows for session in sessions), reverse=True)
    tell(
        f"seed {seed}: {account}; rows by session {by_session}; {seconds:.0f} s after the last kill the survivor had "
        f"published the {missing} answers that were missing then"
    )
    whole_rows(repository, QUESTIONS)
    assert sum(by_session) == QUESTIONS
    assert len(by_session) > 1, "the other machine published nothing"
    assert not account.lost
    assert not account.doubled
    survivor.assert_nothing_left()
