"""The scripts for Slurm on a real Slurm: an array of jobs makes one complete answer set, a worker takes flow runs."""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelled

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.answers.verify import verify
from tests.command_line import DEMO, ROOT
from tests.crash.harness import spooled
from tests.engines.openai_api.test_client import misbehaving_server
from tests.infra.slurm import Slurm, running_slurm
from tests.prefect_fixtures import state_of
from tests.processes.trees import wait_until

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
    wait_until(met, seconds, lambda: told(slurm, logs), 0.3)


def published(answers: Path) -> int:
    """Rows of all answer sets."""
    repository = LocalRepository(answers)
    head = repository.head()
    return sum(stored.manifest.rows for stored in list_sets(repository, head)) if head else 0


def assert_complete(answers: Path, questions: int) -> None:
    """The repository has one answer set, complete and scored, with one row for each question."""
    repository = LocalRepository(answers)
    head = repository.head()
    assert head is not None
    (stored,) = list_sets(repository, head)
    assert stored.manifest.state == "complete"
    found = Counter(
        row["sample_id"] for batch in stored.batches(["sample_id"]) for row in batch.to_pylist()
    )
    assert set(found.values()) == {1}
    assert len(found) == stored.manifest.rows == questions
    assert not verify(repository, head).problems
    assert len(stored.scores()) == 1


STAND_IN = """#!/bin/bash
echo "begins $SLURM_RESTART_COUNT"
trap 'echo stopped; exit 143' TERM
while true; do sleep 0.1; done
"""


@pytest.fixture
def job(slurm: Slurm, settings: dict[str, str], tmp_path: Path) -> str:
    """An array of two tasks whose stand-ins for `regrade` have begun, and only wait for SIGTERM."""
    (tmp_path / "bin" / "regrade").write_text(STAND_IN)
    job = array(slurm, settings, tmp_path)
    until(lambda: starts(job, tmp_path) == [1, 1], slurm, tmp_path)
    return job


def urgent(slurm: Slurm, folder: Path, seconds: int) -> str:
    """Start a job of more weight, which takes the whole node, and return its id."""
    return slurm(
        *("sbatch", "--parsable", "--partition=urgent", "--ntasks=2", "--output=urgent.log"),
        *(f"--chdir={folder}", "--wrap", f"sleep {seconds}"),
    )


def starts(job: str, logs: Path) -> list[int]:
    """Number of times that each task of an array began."""
    files = [logs / f"regrade-{job}-{task}.log" for task in (1, 2)]
    return [file.read_text().count("begins") if file.exists() else 0 for file in files]


def array(slurm: Slurm, settings: dict[str, str], folder: Path, *words: str) -> str:
    """Start an array of two tasks, and return its id once both run."""
    job = slurm(
        *("sbatch", "--parsable", "--array=1-2", f"--chdir={folder}", "--partition=low"),
        *(str(SCRIPTS / "evaluate.sbatch"), *words),
        **settings,
    )
    until(lambda: set(slurm.states(job).values()) == {"RUNNING"}, slurm, folder)
    return job


def test_each_task_of_an_array_is_requeued_at_its_end_of_time_and_by_itself(
    slurm: Slurm, job: str, tmp_path: Path
):
    expected = [1, 1]
    for task in (2, 1):  # the last one has the id of the array as its own
        slurm("scancel", "--batch", "--signal=TERM", f"{job}_{task}")
        until(lambda: slurm.states(job)[f"{job}_{task}"] == "PENDING", slurm, tmp_path)  # noqa: B023
        slurm.start_now(f"{job}_{task}")
        expected[task - 1] += 1
        until(lambda: starts(job, tmp_path) == expected, slurm, tmp_path)
        until(lambda: set(slurm.states(job).values()) == {"RUNNING"}, slurm, tmp_path)
    slurm("scancel", "--full", job)


def test_each_task_of_an_array_that_is_preempted_begins_again_once(
    slurm: Slurm, job: str, tmp_path: Path
):
    other = urgent(slurm, tmp_path, 1)
    until(lambda: set(slurm.states(job).values()) == {"PENDING"}, slurm, tmp_path)
    until(lambda: ended(slurm, other), slurm, tmp_path)
    for task in (1, 2):
        slurm.start_now(f"{job}_{task}")
    until(lambda: starts(job, tmp_path) == [2, 2], slurm, tmp_path)
    assert "another turn" not in told(slurm, tmp_path)
    slurm("scancel", "--full", job)


@pytest.mark.parametrize("how", [(), ("--full",)], ids=["scancel", "scancel --full"])
def test_each_task_of_an_array_that_is_cancelled_stays_so(
    slurm: Slurm, job: str, tmp_path: Path, how: tuple[str, ...]
):
    for task, others in ((2, {"RUNNING"}), (1, {"CANCELLED"})):
        name = f"{job}_{task}"
        slurm("scancel", *how, name)
        until(lambda: slurm.states(job).get(name, "CANCELLED") == "CANCELLED", slurm, tmp_path)  # noqa: B023
        assert slurm.states(job).get(f"{job}_{3 - task}", "CANCELLED") in others
    assert starts(job, tmp_path) == [1, 1]
    assert "another turn" not in told(slurm, tmp_path)


def test_an_array_that_is_preempted_and_out_of_time_makes_one_complete_set(
    slurm: Slurm, settings: dict[str, str], job_file: Path, tmp_path: Path
):
    """One home for all tasks, with what regrade puts there by default."""
    answers = tmp_path / "answers"
    for name in ("REGRADE_LOGS", "PREFECT_HOME", "REGRADE_SPOOL"):
        del settings[name]
    settings["HOME"] = str(tmp_path / "home")
    (tmp_path / "home").mkdir()

    def rows() -> int:
        return published(answers)

    job = array(slurm, settings, tmp_path, "--config", str(job_file), "--answers", str(answers))
    until(lambda: rows() >= 20, slurm, tmp_path, seconds=300)
    assert set(slurm.states(job).values()) == {"RUNNING"}, told(slurm, tmp_path)

    # The end of the time, as `--signal=B:TERM@120` tells it.
    slurm("scancel", "--batch", "--signal=TERM", f"{job}_2")
    until(lambda: slurm.states(job)[f"{job}_2"] == "PENDING", slurm, tmp_path)
    assert "it goes on in another turn" in (tmp_path / f"regrade-{job}-2.log").read_text()
    other = urgent(slurm, tmp_path, 3)
    until(lambda: slurm.states(job)[f"{job}_1"] == "PENDING", slurm, tmp_path)
    before = rows()
    assert 20 <= before < QUESTIONS
    until(lambda: slurm.states(other).get(other, "COMPLETED") == "COMPLETED", slurm, tmp_path)
    for task in (1, 2):
        slurm.start_now(f"{job}_{task}")
    until(lambda: set(slurm.states(job).values()) <= {"COMPLETED"}, slurm, tmp_path, seconds=300)

    assert_complete(answers, QUESTIONS)
    assert spooled(tmp_path / "regrade-spool") == {}
    texts = [(tmp_path / f"regrade-{job}-{task}.log").read_text() for task in (1, 2)]
    assert all("continuing," in text for text in texts)
    # One has the result, the other says who has it, unless it began when all was done.
    assert any("accuracy" in text.lower() for text in texts)


@pytest.mark.vllm
def test_nodes_without_a_network_evaluate_with_a_model_and_data_on_the_file_system(
    slurm: Slurm, settings: dict[str, str], tmp_path: Path
):
    regrade = tmp_path / "bin" / "regrade"
    home = shlex.quote(str(DEMO.parents[1]))  # the demo's paths are relative
    command = (
        f'ip link set lo up; cd {home}; exec {shlex.quote(sys.executable)} -m regrade.cli.main "$@"'
    )
    regrade.write_text(f'#!/bin/sh\nexec unshare --net sh -c {shlex.quote(command)} regrade "$@"\n')
    answers = tmp_path / "answers"
    words = ("--config", str(DEMO / "demo.yaml"), "--answers", str(answers), "--limit", "12")
    job = array(slurm, settings | {"HF_HUB_OFFLINE": "1"}, tmp_path, *words)
    until(lambda: set(slurm.states(job).values()) <= {"COMPLETED"}, slurm, tmp_path, seconds=500)
    texts = [(tmp_path / f"regrade-{job}-{task}.log").read_text() for task in (1, 2)]
    assert any("accuracy" in text.lower() for text in texts), told(slurm, tmp_path)
    head = LocalRepository(answers).head()
    assert head is not None
    stored = list_sets(LocalRepository(answers), head)
    assert [(kept.manifest.state, kept.manifest.rows) for kept in stored] == [("complete", 12)] * 2


@pytest.mark.prefect
def test_a_worker_in_an_allocation_takes_runs_and_ends_with_its_time(
    slurm: Slurm,
    settings: dict[str, str],
    job_file: Path,
    client: SyncPrefectClient,
    prefect_server: str,
    tmp_path: Path,
):
    answers, queue = tmp_path / "answers", f"slurm-{uuid4()}"
    deployment = client.read_deployment_by_name("evaluate-model/evaluate-model")

    def allocation() -> str:
        return slurm(
            *("sbatch", "--parsable", "--array=1-1", f"--chdir={tmp_path}", "--partition=low"),
            *(str(SCRIPTS / "worker.sbatch"), "--work-queue", queue),
            **settings,
            PREFECT_API_URL=prefect_server,
        )

    def start(**more: object) -> FlowRun:
        parameters = json.loads(job_file.read_text()) | {
            "answers": str(answers),
            "tracking_uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
        }
        return client.create_flow_run_from_deployment(
            deployment.id, parameters=parameters | more, work_queue_name=queue
        )

    first = allocation()
    short = start(limit=5, answers=str(tmp_path / "short"))
    until(lambda: state_of(client, short).is_final(), slurm, tmp_path)
    assert state_of(client, short).is_completed(), told(slurm, tmp_path)
    assert published(tmp_path / "short") == 5

    run = start()
    until(lambda: published(answers) >= 20, slurm, tmp_path)
    # The end of the time, as `--signal=B:TERM@120` tells it.
    slurm("scancel", "--batch", "--signal=TERM", f"{first}_1")
    until(lambda: ended(slurm, first), slurm, tmp_path, seconds=60)
    assert state_of(client, run).name == "AwaitingRetry", told(slurm, tmp_path)
    before = published(answers)
    assert 20 <= before < QUESTIONS

    # The next allocation continues, and is preempted.
    second = allocation()
    until(lambda: published(answers) > before, slurm, tmp_path)
    other = urgent(slurm, tmp_path, 3)
    until(lambda: slurm.states(second)[f"{second}_1"] == "PENDING", slurm, tmp_path)
    assert state_of(client, run).name == "AwaitingRetry", told(slurm, tmp_path)
    until(lambda: ended(slurm, other), slurm, tmp_path)
    slurm.start_now(f"{second}_1")
    until(lambda: state_of(client, run).is_final(), slurm, tmp_path)
    assert state_of(client, run).is_completed(), f"{state_of(client, run)} {told(slurm, tmp_path)}"
    assert_complete(answers, QUESTIONS)
    assert spooled(tmp_path / "spool") == {}

    run = start(answers=str(tmp_path / "again"))
    until(lambda: published(tmp_path / "again") > 0, slurm, tmp_path)
    slurm("scancel", second)
    until(lambda: ended(slurm, second), slurm, tmp_path, seconds=60)
    assert state_of(client, run).name == "AwaitingRetry", told(slurm, tmp_path)
    client.set_flow_run_state(run.id, Cancelled(), force=True)


def ended(slurm: Slurm, job: str) -> bool:
    """True if no task of a job waits or runs, nor is on its way to its end."""
    return not slurm("squeue", "--noheader", f"--jobs={job}")
