"""Kill, upgrade, back up, stop and restore a stack, with as few starts as possible."""

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.stack.layout import HOST
from infra.stack.parts import servers
from infra.stack.postgres import OWNER, ask, binaries, passwords
from regrade.answers.local import LocalRepository
from tests.command_line import ROOT, run
from tests.infra.older_mlflow import one_revision_back
from tests.infra.running_stack import Stack, living, stack_in, started, wait_until
from tests.stored import numbers, publish

pytestmark = [pytest.mark.stack, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1200)]

REVISION = "SELECT version_num FROM alembic_version"
OLDER = "COMMENT ON DATABASE mlflow IS 'mlflow==3.0.0'"


@dataclass
class Restarted:
    """A stack that was started again over the databases of an older MLflow."""

    stack: Stack
    processes: list[psutil.Process]
    """Processes before the start."""
    metrics: list[float]
    """Accuracies in MLflow before the start."""
    revision: str
    """Revision of MLflow's schema before it was set back."""
    old: str
    """Flow run whose end was set two years back."""


def scored(stack: Stack) -> str:
    """Id of a flow run that scored a small answer set of the stack's repository."""
    folder = Path(stack.place.answers)
    answers = publish(LocalRepository(folder), numbers(0, 3))
    owner = folder.stat()  # the workers' user
    for path in folder.rglob("*"):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    parameters = {"answer_set": answers.manifest.answer_set_id, "force": True}
    flow_run_id = stack.start_run("score-answers", parameters)
    stack.completed(flow_run_id)
    return flow_run_id


@pytest.fixture(scope="module")
def restarted(stack: Stack) -> Restarted:
    old = scored(stack)
    state = Restarted(
        stack,
        stack.everything(),
        stack.metrics("accuracy/demo-arithmetic"),
        ask(stack.place, "mlflow", REVISION),
        old,
    )
    assert stack.supervisor is not None
    stack.supervisor.kill()
    stack.supervisor.wait()
    two_years_ago = "UPDATE flow_run SET end_time = now() - interval '2 years'"
    ask(stack.place, "prefect", f"{two_years_ago} WHERE id = '{old}'")
    (mlflow,) = [server for server in servers(stack.place) if server.name == "mlflow"]
    one_revision_back(mlflow.environment["MLFLOW_BACKEND_STORE_URI"], mlflow.environment)
    ask(stack.place, "mlflow", OLDER)
    stack.start()
    return state


def test_a_start_after_the_supervisor_was_killed_goes_on_with_what_was_kept(
    evaluated: dict[str, Any], restarted: Restarted
):
    stack = restarted.stack
    assert not living(restarted.processes)
    assert stack.flow_run(evaluated["id"])["state_type"] == "COMPLETED"
    assert stack.metrics("accuracy/demo-arithmetic") == restarted.metrics != []


def test_a_start_with_a_newer_mlflow_backs_up_and_upgrades_its_database(restarted: Restarted):
    place = restarted.stack.place
    assert (
        "upgrading the databases (mlflow==3.0.0 -> mlflow==" in restarted.stack.output.read_text()
    )
    assert ask(place, "mlflow", REVISION) == restarted.revision
    (kept,) = place.backups.iterdir()  # the first start had nothing to back up
    assert kept.stat().st_mode & 0o777 == 0o600
    with tarfile.open(kept) as archive:
        assert archive.getnames() == ["prefect.dump", "mlflow.dump", "backup.json"]


def test_the_script_of_compose_dumps_a_database_whose_package_changed_and_only_once(
    restarted: Restarted, tmp_path: Path
):
    place = restarted.stack.place
    variables = {
        "PATH": f"{binaries(place)}:{os.environ['PATH']}",
        "PGHOST": HOST,
        "PGPORT": str(place.postgres_port),
        "PGUSER": OWNER,
        "PGPASSWORD": passwords(place)[OWNER],
        "BACKUPS": str(tmp_path),
        "PACKAGES": str(ROOT / "requirements/scoring.txt"),
    }
    script = ["bash", str(ROOT / "infra/stack/backup-before-upgrade.sh")]
    ask(place, "mlflow", OLDER)
    for _ in range(2):
        done = run(script, 60, variables)
        assert done.code == 0, done.err
    (dump,) = tmp_path.iterdir()
    assert re.search(r"-mlflow-before-mlflow-[\d.]+\.dump$", dump.name)
    listed = run([str(binaries(place) / "pg_restore"), "--list", str(dump)], 60, variables)
    assert "TABLE DATA public experiments" in listed.out


def test_a_flow_run_that_ended_long_ago_is_deleted(restarted: Restarted):
    place = restarted.stack.place
    statement = f"SELECT count(*) FROM flow_run WHERE id = '{restarted.old}'"
    wait_until(lambda: ask(place, "prefect", statement) == "0", 60, "it was not deleted")


def test_status_shows_what_grows_and_how_to_make_it_smaller(restarted: Restarted):
    shown = restarted.stack.command("status")
    assert shown.code == 0, shown.err
    for name in (
        "Prefect's database",
        "MLflow's database",
        "artifacts",
        "spool",
        "logs",
        "backups",
    ):
        (line,) = [line for line in shown.out.splitlines() if line.startswith(f"  {name:<18} ")]
        assert any(unit in line for unit in ("bytes", "kB", "MB"))


@dataclass
class BackedUp:
    """A backup, and what the stack had when it was made."""

    file: Path
    run: str
    deployments: str
    metrics: list[float]
    artifacts: set[Path]
    head: str | None
    """Revision of the answers."""


DEPLOYMENTS = "SELECT id, name FROM deployment ORDER BY name"


@pytest.fixture(scope="module")
def backed_up(restarted: Restarted, tmp_path_factory: pytest.TempPathFactory) -> BackedUp:
    stack = restarted.stack
    run = scored(stack)
    file = tmp_path_factory.mktemp("backup") / "stack.tar"
    written = stack.command("backup", file)
    assert written.code == 0, written.err
    return BackedUp(
        file,
        run,
        ask(stack.place, "prefect", DEPLOYMENTS),
        stack.metrics("accuracy/demo-arithmetic"),
        files_in(stack.place.artifacts),
        LocalRepository(Path(stack.place.answers)).head(),
    )


def files_in(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_a_backup_of_a_running_stack_has_no_password_and_is_for_its_owner_only(
    backed_up: BackedUp, stack: Stack
):
    assert backed_up.file.stat().st_mode & 0o777 == 0o600
    content = backed_up.file.read_bytes()
    assert not [
        password for password in passwords(stack.place).values() if password.encode() in content
    ]
    again = stack.command("backup", backed_up.file)
    assert (again.code, again.err.strip()) == (1, f"{backed_up.file} exists. Name a new file.")
    assert "Stop it first" in stack.command("restore", backed_up.file).err


def test_stopping_ends_exactly_what_was_started(stack: Stack):
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        ours = stack.everything()
        stopped = stack.command("down")
        assert stopped.code == 0, stopped.err
        assert not living(ours)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert stack.supervisor is not None
    assert stack.supervisor.wait(30) == 0, stack.output.read_text()
    assert "stopped" in stack.output.read_text()
    assert stack.command("status").code == 1
    assert stack.command("down").out.strip() == "the stack is not running"


@pytest.fixture(scope="module")
def second() -> Iterator[Stack]:
    """A stack in an empty folder, not started."""
    home = Path(tempfile.mkdtemp(prefix="regrade-restored-"))
    home.chmod(0o711)
    yield stack_in(home, {})
    shutil.rmtree(home)


def test_a_restore_into_an_empty_stack_brings_everything_back(backed_up: BackedUp, second: Stack):
    place = second.place
    restored = second.command("restore", backed_up.file)
    assert restored.code == 0, restored.err
    again = second.command("restore", backed_up.file)
    assert again.code == 1
    assert f"{place.home} is not empty (prefect, mlflow, " in again.err
    replaced = second.command("restore", backed_up.file, "--replace")
    assert replaced.code == 0, replaced.err
    (kept,) = place.backups.iterdir()
    assert kept.name.endswith("-before-restore.tar")
    assert len(list(place.home.glob("answers-before-*"))) == 1

    with started(second):
        assert "unknown -> mlflow==" in second.output.read_text()
        assert second.flow_run(backed_up.run)["state_type"] == "COMPLETED"
        assert ask(place, "prefect", DEPLOYMENTS) == backed_up.deployments
        assert second.metrics("accuracy/demo-arithmetic") == backed_up.metrics
        assert files_in(place.artifacts) == backed_up.artifacts
        assert LocalRepository(Path(place.answers)).head() == backed_up.head
        scored(second)
