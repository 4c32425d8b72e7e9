"""`make stack-test`: the stack with Postgres, Prefect, MLflow, two workers and real vLLM, from start to stop.

All tests use the same stack: it starts, evaluates a model, scores and compares answers as a user without rights (this file); the servers, the
worker and the machine of a run are killed (test_stack_breaks.py); a run is started, cancelled and continued in the UI
(test_stack_pages.py); the stack is killed, restarted and stopped (test_stack_stops.py).
"""

import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from infra.stack.parts import client_environment, monitoring
from infra.stack.postgres import passwords
from infra.stack.users import DEFAULT, as_user
from regrade.processes.environment import TELEMETRY_OFF
from tests.command_line import DEMO, Ran, run
from tests.infra.conftest import N
from tests.infra.running_stack import Stack, wait_until
from tests.infra.test_ci import CI, steps

pytestmark = [pytest.mark.stack, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1200)]


def test_all_parts_run_and_a_second_start_finds_them(stack: Stack):
    before = stack.parts()
    metrics = [part.name for part in monitoring(stack.place)]
    servers = ["postgres", "prefect", "mlflow", "view", *metrics]
    assert list(before) == [*servers, "worker-gpu", "worker-cpu"]
    again = stack.command("up")
    assert again.code == 0, again.err
    assert "the stack is already running" in again.out
    assert stack.place.prefect_url in again.out
    assert stack.parts() == before
    assert stack.command("status").code == 0


def test_a_run_from_the_api_is_evaluated_and_tracked(stack: Stack, evaluated: dict[str, Any]):
    assert evaluated["work_pool_name"] == "gpu"
    (result,) = stack.pages(evaluated["id"])
    assert "demo-arithmetic" in result
    assert max(stack.metrics("accuracy/demo-arithmetic")) > 0.5
    # The server writes the artifacts of the run to its disk.
    assert any(path.is_file() for path in (stack.place.home / "artifacts").rglob("*"))


def test_prometheus_has_scraped_the_run(stack: Stack, evaluated: dict[str, Any]):
    if not monitoring(stack.place):
        pytest.skip("Prometheus is not here: infra/prometheus.sh unpacks it")
    query = "max_over_time(regrade_answers_total[1h])"
    asked = httpx.get(f"{stack.place.prometheus_url}/api/v1/query", params={"query": query}).json()
    benchmarks = {row["metric"]["benchmark"] for row in asked["data"]["result"]}
    # A run that takes less than the time between two scrapes may be missed; its port is not.
    assert benchmarks <= {"demo-arithmetic", "demo-choice"}
    targets = httpx.get(f"{stack.place.prometheus_url}/api/v1/targets").json()["data"]
    assert len(targets["activeTargets"]) == 4


def test_both_servers_keep_everything_in_postgres(stack: Stack, evaluated: dict[str, Any]):
    assert query(stack, "prefect", f"SELECT name FROM flow_run WHERE id = '{evaluated['id']}'")
    assert query(stack, "mlflow", "SELECT key FROM metrics WHERE key = 'accuracy/demo-arithmetic'")


def query(stack: Stack, role: str, statement: str, **changes: str) -> list[Any]:
    import psycopg

    address: dict[str, Any] = {"host": "127.0.0.1", "port": stack.place.postgres_port}
    address |= {"user": role, "dbname": role, "passfile": str(stack.place.passwords)} | changes
    with psycopg.connect(**address) as connection:
        return connection.execute(statement).fetchall()


def test_postgres_lets_nobody_in_without_the_password_of_that_database(stack: Stack):
    import psycopg

    for changes in ({"passfile": os.devnull}, {"password": "wrong"}, {"dbname": "mlflow"}):
        with pytest.raises(psycopg.OperationalError, match="password|permission denied"):
            query(stack, "prefect", "SELECT 1", **changes)
    assert stack.place.passwords.stat().st_mode & 0o777 == 0o600


def test_no_process_listens_or_connects_beyond_this_machine(stack: Stack):
    found = []
    for process in stack.everything():
        with suppress(psutil.NoSuchProcess):  # a flow run that has just ended
            found += [(process.name(), opened) for opened in process.net_connections("inet")]
    listening = {opened.laddr.ip for _, opened in found if opened.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}, found
    assert {opened.raddr.ip for _, opened in found if opened.raddr} <= {"127.0.0.1"}, found


def test_stored_answers_are_scored_again_in_the_cpu_pool(stack: Stack, evaluated: dict[str, Any]):
    scored = stack.completed(stack.start_run("score-answers", {"force": True, "intact": True}))
    assert scored["work_pool_name"] == "cpu"
    (result,) = stack.pages(scored["id"])
    assert "demo-choice" in result


@pytest.fixture(scope="module")
def worse(stack: Stack, demo: dict[str, Any]) -> str:
    """Folder of a worse model that was evaluated."""
    folder = str(damaged_model(stack.place.home / "worse"))
    parameters = {**demo, "model": folder, "limit": N}
    stack.completed(stack.start_run("evaluate-model", parameters))
    return folder


def test_a_worse_model_is_called_worse_in_the_cpu_pool(
    stack: Stack, evaluated: dict[str, Any], worse: str
):
    # A model in a folder is named by the folder's name or path.
    sides = {"base": "regrade-demo", "candidate": worse, "gate": {"max_drop": 8}}
    compared = stack.completed(stack.start_run("compare-models", sides))
    assert compared["work_pool_name"] == "cpu"
    assert compared["state"]["message"].startswith("regression"), stack.told(compared["id"])
    assert any("demo-arithmetic" in page for page in stack.pages(compared["id"]))


@pytest.mark.parametrize(
    ("workflow", "words", "unchanged"),
    [
        # A run of the baseline's model has nothing to compare; who names two sides, as for `gate`, wants two.
        ("github.yml", "Evaluate and judge", (0, "pass")),
        ("github-one-job.yml", "Judge", (2, "cannot tell")),
    ],
)
def test_the_script_of_a_ci_job_says_regression_of_a_worse_model_only(
    stack: Stack,
    evaluated: dict[str, Any],
    worse: str,
    tmp_path: Path,
    workflow: str,
    words: str,
    unchanged: tuple[int, str],
):
    promoted = job("regrade promote regrade-demo", stack, tmp_path, "")
    assert promoted.code == 0, promoted.err
    (step,) = [found for found in steps(CI / workflow) if found.get("name") == words]
    script = step["run"].replace(
        "--benchmark gsm8k_chat --benchmark mmlu",
        f"--limit {N} --config {DEMO / 'demo.yaml'}",  # nothing here comes from the Hub
    )
    # Fewer questions than those of the script's benchmarks show less.
    script = script.replace("--max-drop 1 --max-drop-of gsm8k_chat=3", "--max-drop 10")

    judged = job(script, stack, tmp_path, worse)
    assert judged.code == 1, judged.out + judged.err
    assert "regression" in (tmp_path / "regrade.md").read_text().splitlines()[0]
    assert "regression" in (tmp_path / "summary.md").read_text()
    assert "<failure" in (tmp_path / "regrade.xml").read_text()

    same = job(script, stack, tmp_path, str(DEMO / "regrade-demo"))
    code, verdict = unchanged
    assert same.code == code, same.out + same.err
    assert verdict in (tmp_path / "regrade.md").read_text().splitlines()[0]


def job(script: str, stack: Stack, folder: Path, model: str) -> Ran:
    """Run a step of a CI job, as a CI runner does."""
    settings = {
        **client_environment(stack.place),
        "ANSWERS": stack.place.answers,
        "MODEL": model,
        "FOLDER": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return run(shell, 400, settings, cwd=folder)


def damaged_model(folder: Path) -> Path:
    """Copy of the demo model whose feed-forward layers output nothing."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(DEMO / "regrade-demo", folder)
    weights = load_file(folder / "model.safetensors")
    for name, weight in weights.items():
        if name.endswith("mlp.down_proj.weight"):
            weights[name] = torch.zeros_like(weight)
    file = folder / "model.safetensors"
    save_file(weights, file, metadata={"format": "pt"})
    file.chmod(
        0o644
    )  # save_file lets only the owner read it, and the workers have a user of their own
    return folder


def test_no_password_is_in_a_process_list_or_a_log(stack: Stack, evaluated: dict[str, Any]):
    secrets = [secret.encode() for secret in passwords(stack.place).values()]
    secrets.append(stack.login.partition(":")[2].encode())
    assert len(set(secrets)) == 4
    assert all(len(secret) >= 24 for secret in secrets)
    seen = [path for path in Path("/proc").glob("[0-9]*/cmdline") if holds(path, secrets)]
    home = stack.place.home
    files = [*stack.place.logs.rglob("*"), *(home / "prefect").rglob("*"), stack.output]
    files += (home / "worker").rglob("*")
    seen += [path for path in files if path.is_file() and holds(path, secrets)]
    assert not seen
    assert holds(stack.place.passwords, secrets)  # the search finds what is there


def holds(path: Path, secrets: list[bytes]) -> bool:
    try:
        text = path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # a process that has just ended
        return False
    return any(secret in text for secret in secrets)


def test_every_part_runs_with_telemetry_off(stack: Stack):
    for name, part in stack.parts().items():
        process = part.process()
        assert process is not None, name
        assert process.environ().items() >= TELEMETRY_OFF.items(), name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_a_flow_run_is_not_root_and_reads_no_secret_of_the_stack(
    stack: Stack, evaluated: dict[str, Any]
):
    worker = stack.parts()["worker-cpu"].process()
    assert worker is not None
    if worker.uids().effective == 0:
        pytest.skip(f"the user {DEFAULT} cannot run this Python")
    user = pwd.getpwnam(DEFAULT)
    flow_run = stack.start_run("score-answers", {"force": True})

    def process() -> psutil.Process | None:
        found = stack.below("worker-cpu")
        return next((run for run in found if _is_flow_run(run)), None)

    started = wait_until(process, 60, lambda: stack.told(flow_run))
    assert set(started.uids()) == {user.pw_uid}
    variables = started.environ()
    assert (variables["HOME"], variables["REGRADE_REMOTE_CODE"]) == (str(stack.place.worker), "0")
    stack.completed(flow_run)
    place = stack.place
    for secret in (place.login, place.passwords, place.cluster / "PG_VERSION"):
        read = subprocess.run(as_user(user, ["cat", str(secret)]), capture_output=True, check=False)
        assert read.returncode != 0, secret


def _is_flow_run(process: psutil.Process) -> bool:
    try:
        return "regrade.orchestration.flow_run_process" in process.cmdline()
    except psutil.NoSuchProcess:
        return False
