"""Two machines with a real engine each make one answer set; one of them is killed (SIGKILL) again and again."""

import random
import time
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.verify import verify
from tests.crash.harness import (
    Account,
    Command,
    Row,
    answer_set,
    config,
    many_questions,
    spooled,
    stored,
    tell,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.prefect,
    pytest.mark.timeout(1500),
]
ENGINE = {
    "kind": "vllm",
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 512,
    "max_num_seqs": 16,
    # vLLM takes 4 GiB otherwise, and the two do not know of each other.
    "extra": ["kv_cache_memory_bytes=268435456"],
}


@pytest.mark.parametrize(("seed", "kills", "questions"), [(seed, 2, 1500) for seed in range(1, 11)])
def test_the_engine_that_is_left_completes_what_another_began(
    account: Account, prefect_server: str, tmp_path: Path, seed: int, kills: int, questions: int
):
    tell(f"seed {seed}")
    rng = random.Random(seed)
    repository = LocalRepository(tmp_path / "answers")
    job_file = config(
        tmp_path,
        ENGINE,
        questions=many_questions(tmp_path, questions),
        model=str(Path("infra/demo/regrade-demo").absolute()),
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
    left: dict[tuple[str, int], Row] = {}
    with survivor.started() as working:
        for number in range(kills):
            with victim.started() as run:
                if number % 2 == 0:
                    run.until("is ready", timeout=400)
                    time.sleep(rng.uniform(0, 8))
                else:
                    time.sleep(rng.uniform(0, 25))  # imports, plan, load
                run.kill()
            account.kills += 1
            victim.assert_nothing_left()
            left |= spooled(victim.spool)
            account.known |= left
        assert working.process.poll() is None, "the survivor was done before the last kill"
        killed = time.monotonic()
        done = working.wait(900)
    seconds = time.monotonic() - killed
    assert done.code == 0, done.err

    rows = stored(LocalRepository(repository.folder))
    account.doubled = (
        {key for key, _ in rows if [k for k, _ in rows].count(key) > 1}
        if len(dict(rows)) < len(rows)
        else set()
    )
    account.lost = account.known.keys() - dict(rows).keys()
    again = sum(dict(rows)[key] != row for key, row in left.items())
    answers = answer_set(LocalRepository(repository.folder))
    assert answers is not None
    by_session = sorted((session.rows for session in answers.manifest.sessions), reverse=True)
    tell(
        f"{account.kills} kill points, {len(rows)} rows by sessions of {by_session}; {len(left)} rows were left in the "
        f"spool of the victim, {again} of them made again; the survivor took {seconds:.0f} s after the last kill"
    )
    assert len(rows) == len(dict(rows)) == questions
    assert not account.lost
    assert not account.doubled
    assert answers.manifest.state == "complete"
    assert sum(by_session) == questions
    assert not verify(repository, answers.revision).problems
    survivor.assert_nothing_left()
