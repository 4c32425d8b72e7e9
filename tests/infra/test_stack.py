"""`make stack-test`: a team's whole story on Postgres, Prefect, MLflow, two workers and real vLLM.

The tests go through one stack in the order of this file: it starts, a model is evaluated, a run is cancelled, answers are
scored and compared, and in the end the stack is killed, started again and stopped.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from infra.stack.postgres import passwords
from tests.command_line import DEMO
from tests.infra.running_stack import Stack, living, running_stack, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1200)]

N = 40
CONFIG = yaml.safe_load((DEMO / "demo.yaml").read_text())


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    # Not pytest's own folder: Postgres runs as another user, who cannot enter that one.
    home = Path(tempfile.mkdtemp(prefix="regrade-stack-"))
    home.chmod(0o711)
    with running_stack(home) as running:
        yield running
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def evaluated(stack: Stack) -> dict[str, Any]:
    """The flow run of an evaluation that was started from the API."""
    return stack.finish(stack.start_run("evaluate-model", {**CONFIG, "limit": N}))


def test_all_parts_run_and_a_second_start_finds_them(stack: Stack):
    before = stack.parts()
    assert list(before) == ["postgres", "prefect", "mlflow", "worker-gpu", "worker-cpu"]
    again = stack.command("up")
    assert again.code == 0, again.err
    assert "the stack runs already" in again.out
    assert stack.place.prefect_url in again.out
    assert stack.parts() == before
    assert stack.command("status").code == 0


def test_a_run_from_the_api_is_evaluated_and_tracked(stack: Stack, evaluated: dict[str, Any]):
    assert evaluated["state_type"] == "COMPLETED", stack.told(evaluated["id"])
    assert evaluated["work_pool_name"] == "gpu"
    (result,) = [one for one in stack.artifacts(evaluated["id"]) if one["type"] == "markdown"]
    assert "demo-arithmetic" in result["data"]
    assert max(metrics(stack, "accuracy/demo-arithmetic")) > 0.5
    # The artifacts of the run go through the server onto its disk.
    assert any(path.is_file() for path in (stack.place.home / "artifacts").rglob("*"))


def metrics(stack: Stack, name: str) -> list[float]:
    """All values of a metric, over all experiments, sorted."""
    found = stack.mlflow("experiments/search", max_results=100)["experiments"]
    ids = [experiment["experiment_id"] for experiment in found]
    runs = stack.mlflow("runs/search", experiment_ids=ids, max_results=100).get("runs", [])
    kept = [one for run in runs for one in run["data"].get("metrics", []) if one["key"] == name]
    return sorted(float(one["value"]) for one in kept)


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
    connections = [
        (process.name(), one)
        for process in stack.everything()
        for one in process.net_connections("inet")
    ]
    listening = {one.laddr.ip for _, one in connections if one.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}, connections
    assert {one.raddr.ip for _, one in connections if one.raddr} <= {"127.0.0.1"}, connections


def test_a_cancelled_run_is_cancelled_and_leaves_no_engine(stack: Stack):
    flow_run_id = stack.start_run("evaluate-model", {**CONFIG, "datasets": [long_benchmark(stack)]})

    def answers() -> bool:
        state = stack.flow_run(flow_run_id)["state_type"]
        assert state in {"SCHEDULED", "PENDING", "RUNNING"}, stack.told(flow_run_id)
        done = [one["data"] for one in stack.artifacts(flow_run_id) if one["type"] == "progress"]
        return any(share and share > 0 for share in done)

    wait_until(answers, 540, lambda: stack.told(flow_run_id))
    processes = stack.below("worker-gpu")
    assert len(processes) >= 3  # the flow, the engine's guard, the engine
    cancelling = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
    url = f"{stack.api}/flow_runs/{flow_run_id}/set_state"
    assert httpx.post(url, json=cancelling, timeout=30).is_success
    ended = stack.finish(flow_run_id, 120)
    assert ended["state_type"] == "CANCELLED", stack.told(flow_run_id)
    wait_until(lambda: not living(processes), 30, lambda: str(living(processes)))
    assert not stack.below("worker-gpu")


def long_benchmark(stack: Stack) -> dict[str, Any]:
    """So many questions that a test can cancel in the midst of them."""
    questions = (DEMO / "data/arithmetic.jsonl").read_text().splitlines()
    path = stack.place.home / "many.jsonl"
    with path.open("w") as file:
        for number in range(20):
            for line in questions:
                row = json.loads(line)
                row["question"] = f"{number}. {row['question']}"
                file.write(json.dumps(row) + "\n")
    return {**CONFIG["datasets"][0], "name": "many", "path": str(path)}


def test_stored_answers_are_scored_again_in_the_cpu_pool(stack: Stack, evaluated: dict[str, Any]):
    scored = stack.finish(stack.start_run("score-answers", {"force": True, "intact": True}))
    assert scored["state_type"] == "COMPLETED", stack.told(scored["id"])
    assert scored["work_pool_name"] == "cpu"
    (result,) = [one for one in stack.artifacts(scored["id"]) if one["type"] == "markdown"]
    assert "demo-choice" in result["data"]


def test_a_worse_model_is_called_worse_in_the_cpu_pool(stack: Stack, evaluated: dict[str, Any]):
    worse = str(damaged_model(stack.place.home / "worse"))
    candidate = stack.finish(
        stack.start_run("evaluate-model", {**CONFIG, "model": worse, "limit": N})
    )
    assert candidate["state_type"] == "COMPLETED", stack.told(candidate["id"])
    # A model in a folder goes by the folder's name.
    sides = {"base": "model", "candidate": "worse", "gate": {"max_drop": 1.0}}
    compared = stack.finish(stack.start_run("compare-models", sides))
    assert compared["state_type"] == "COMPLETED", stack.told(compared["id"])
    assert compared["work_pool_name"] == "cpu"
    assert compared["state"]["message"].startswith("regression"), stack.told(compared["id"])
    pages = [one["data"] for one in stack.artifacts(compared["id"]) if one["type"] == "markdown"]
    assert any("demo-arithmetic" in page for page in pages)


def damaged_model(folder: Path) -> Path:
    """The demo model without what its feed-forward layers say."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(DEMO / "model", folder)
    weights = load_file(folder / "model.safetensors")
    for name, weight in weights.items():
        if name.endswith("mlp.down_proj.weight"):
            weights[name] = torch.zeros_like(weight)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_no_password_is_in_a_process_list_or_a_log(stack: Stack, evaluated: dict[str, Any]):
    secrets = [secret.encode() for secret in passwords(stack.place).values()]
    assert len(set(secrets)) == 3
    assert all(len(secret) >= 24 for secret in secrets)
    seen = [path for path in Path("/proc").glob("[0-9]*/cmdline") if holds(path, secrets)]
    home = stack.place.home
    files = [*stack.place.logs.rglob("*"), *(home / "prefect").rglob("*"), stack.output]
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
        environment = process.environ()
        assert environment["DO_NOT_TRACK"] == "1"
        assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
        assert environment["MLFLOW_DISABLE_TELEMETRY"] == "true"
        assert environment["VLLM_NO_USAGE_STATS"] == "1"
        assert environment["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_a_start_after_the_supervisor_was_killed_goes_on_with_what_was_kept(
    stack: Stack, evaluated: dict[str, Any]
):
    before = stack.everything()
    kept = metrics(stack, "accuracy/demo-arithmetic")
    assert stack.supervisor is not None
    stack.supervisor.kill()
    stack.supervisor.wait()
    stack.start()
    assert not living(before)
    assert stack.flow_run(evaluated["id"])["state_type"] == "COMPLETED"
    assert metrics(stack, "accuracy/demo-arithmetic") == kept != []


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
    assert stack.command("down").out.strip() == "the stack does not run"
