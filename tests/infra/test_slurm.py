"""An array of jobs on a real Slurm: preempted, requeued, and one complete answer set at the end."""

import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.answers.verify import verify
from tests.command_line import ROOT
from tests.crash.harness import spooled
from tests.engines.openai_api.test_client import misbehaving_server
from tests.infra.slurm import Slurm, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(580)]
SCRIPTS = ROOT / "infra/slurm"
QUESTIONS = 600


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def settings(tmp_path: Path, slurm: Slurm) -> dict[str, str]:
    """Environment of the jobs: `regrade` on the PATH, and folders of this test's own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    regrade = programs / "regrade"
    regrade.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m regrade.cli.main "$@"\n')
    regrade.chmod(0o755)
    return {
        "PATH": f"{programs}:{slurm.environment['PATH']}",
        "PYTHONPATH": str(ROOT),
        "REGRADE_SPOOL": str(tmp_path / "spool"),
        "REGRADE_LOGS": str(tmp_path / "logs"),
        "REGRADE_PUBLISH_SECONDS": "0.5",
        "PREFECT_HOME": str(tmp_path / "prefect"),
    }


@pytest.fixture
def job_file(tmp_path: Path) -> Iterator[Path]:
    """Configuration of an evaluation that takes a minute, with a server that answers at once but for a pause."""
    questions = tmp_path / "questions.jsonl"
    rows = [{"question": f"{number}", "answer": f"{number}"} for number in range(QUESTIONS)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with misbehaving_server() as server:
        server.root, server.delay = "/models/small", 0.15
        evaluation = {
            "model": "small",
            "engine": {"kind": "openai", "base_url": server.url, "max_concurrency": 1},
            "datasets": [
                {"name": "mine", "path": str(questions), "scorer": "number", "format": "completion"}
            ],
        }
        path = tmp_path / "eval.yaml"
        path.write_text(json.dumps(evaluation))  # JSON is YAML
        yield path


def told(slurm: Slurm, logs: Path) -> str:
    """Logs of the jobs and of Slurm."""
    texts = [path.read_text()[-3000:] for path in logs.glob("regrade-*.log")]
    return "\n".join([slurm("squeue", "--states=all"), *texts, slurm.logs()])


def until(met: Callable[[], bool], slurm: Slurm, logs: Path, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, told(slurm, logs)
        time.sleep(0.3)


def test_an_array_that_is_preempted_and_out_of_time_makes_one_complete_set(
    slurm: Slurm, settings: dict[str, str], job_file: Path, tmp_path: Path
):
    answers = tmp_path / "answers"

    def rows() -> int:
        repository = LocalRepository(answers)
        head = repository.head()
        return sum(s.manifest.rows for s in list_sets(repository, head)) if head else 0

    job = slurm(
        *("sbatch", "--parsable", "--array=1-2", f"--chdir={tmp_path}", "--partition=low"),
        *(str(SCRIPTS / "evaluate.sbatch"), "--config", str(job_file), "--answers", str(answers)),
        **settings,
    )
    until(lambda: rows() >= 20, slurm, tmp_path)
    assert set(slurm.states(job).values()) == {"RUNNING"}, told(slurm, tmp_path)

    # The end of the time, as `--signal=B:TERM@120` tells it.
    slurm("scancel", "--batch", "--signal=TERM", f"{job}_1")
    until(lambda: slurm.states(job)[f"{job}_1"] == "PENDING", slurm, tmp_path)
    assert "it goes on in another turn" in (tmp_path / f"regrade-{job}-1.log").read_text()
    # A job of more weight takes the whole node.
    urgent = slurm(
        *("sbatch", "--parsable", "--partition=urgent", "--ntasks=2", "--output=urgent.log"),
        *(f"--chdir={tmp_path}", "--wrap", "sleep 3"),
    )
    until(lambda: slurm.states(job)[f"{job}_2"] == "PENDING", slurm, tmp_path)
    before = rows()
    assert 20 <= before < QUESTIONS
    until(lambda: slurm.states(urgent).get(urgent, "COMPLETED") == "COMPLETED", slurm, tmp_path)
    for task in (1, 2):
        slurm.start_now(f"{job}_{task}")
    until(lambda: set(slurm.states(job).values()) <= {"COMPLETED"}, slurm, tmp_path, seconds=300)

    repository = LocalRepository(answers)
    head = repository.head()
    assert head is not None
    (stored,) = list_sets(repository, head)
    assert stored.manifest.state == "complete"
    found = Counter(
        row["sample_id"] for batch in stored.batches(["sample_id"]) for row in batch.to_pylist()
    )
    assert set(found.values()) == {1}
    assert len(found) == stored.manifest.rows == QUESTIONS
    assert not verify(repository, head).problems
    assert len(stored.scores()) == 1
    assert spooled(tmp_path / "spool") == {}
    texts = [(tmp_path / f"regrade-{job}-{task}.log").read_text() for task in (1, 2)]
    assert all("continuing," in text for text in texts)
    # One has the result, the other says who has it, unless it began when all was done.
    assert any("accuracy" in text.lower() for text in texts)


def test_a_task_that_somebody_cancels_is_not_requeued(
    slurm: Slurm, settings: dict[str, str], job_file: Path, tmp_path: Path
):
    job = slurm(
        *("sbatch", "--parsable", "--array=1-1", f"--chdir={tmp_path}"),
        *(str(SCRIPTS / "evaluate.sbatch"), "--config", str(job_file)),
        *("--answers", str(tmp_path / "answers")),
        **settings,
    )
    log = tmp_path / f"regrade-{job}-1.log"
    until(lambda: log.exists() and "is ready" in log.read_text(), slurm, tmp_path)
    slurm("scancel", "--full", job)
    until(lambda: slurm.states(job).get(f"{job}_1", "CANCELLED") == "CANCELLED", slurm, tmp_path)
    assert "goes on in another turn" not in log.read_text()
