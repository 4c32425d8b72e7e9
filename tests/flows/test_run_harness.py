"""`regrade harness` with real Inspect, which needs no containers here, against the real server that regrade starts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.records.trajectory import read_trajectory
from tests.command_line import ROOT

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(1500)]
PEERS = ROOT / ".peers" / "bin"
TASK = '''
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, TaskState, generate, solver
from inspect_ai.tool import ToolCall, ToolChoice, tool
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool


@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: First number.
            y: Second number.
        """
        return str(x + y)

    return execute


@solver
def called_once():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.tools = [add()]
        state = await generate(state, tool_calls="none")
        call = ToolCall(id="c1", function="add", arguments={"x": 1, "y": 1})
        state.messages.append(ChatMessageAssistant(content="", tool_calls=[call]))
        state.messages.append(ChatMessageTool(content="2", tool_call_id="c1", function="add"))
        return await generate(state, tool_calls="none")

    return solve


@task
def addition():
    samples = [Sample(id=n, input=f"What is {n} + 1?", target=str(n + 1)) for n in (1, 2)]
    return Task(dataset=samples, solver=called_once(), scorer=includes())
'''


@pytest.fixture
def environment() -> dict[str, str]:
    """Environment in which `inspect` is found; without it, the test cannot be run."""
    path = os.pathsep.join([str(PEERS), os.environ["PATH"]])
    found = subprocess.run(
        ["which", "inspect"], env={"PATH": path}, capture_output=True, check=False
    )
    if found.returncode:
        pytest.skip("inspect is not installed: infra/install-peers.sh")
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}


def command(demo_model: Path, answers: Path) -> list[str]:
    run = "from regrade.cli.main import main; main()"
    return [
        *(sys.executable, "-c", run, "harness", str(demo_model), "--harness", "inspect"),
        *("--engine.tool-parser", "hermes", "--engine.enforce-eager"),
        *("--engine.max-model-len", "512", "--answers", str(answers), "--json"),
        *("--engine.extra", f"kv_cache_memory_bytes={1 << 28}"),
        *("--", "task.py", "--max-tokens", "32"),
    ]


def test_inspects_agent_asks_the_served_model_and_its_log_is_imported(
    tmp_path: Path, demo_model: Path, environment: dict[str, str]
):
    (tmp_path / "task.py").write_text(TASK)
    done = subprocess.run(
        command(demo_model, tmp_path / "answers"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    [found] = json.loads(done.stdout)["answer_sets"]
    assert (found["format"], found["benchmark"], found["rows"]) == ("inspect", "addition", 2)
    assert found["originals"][0]["n"] == 2
    repository = LocalRepository(tmp_path / "answers")
    [answers] = list_sets(repository, json.loads(done.stdout)["revision"])
    assert answers.manifest.specification.model.name == demo_model.name
    for batch in answers.batches(["trajectory", "text", "completion_tokens"]):
        for row in batch.to_pylist():
            did = read_trajectory(row["trajectory"])
            assert did is not None
            assert [message.role for message in did] == [
                *("assistant", "assistant", "tool", "assistant")
            ]
            assert row["completion_tokens"] > 0


def test_a_stopped_run_leaves_neither_server_nor_harness(
    tmp_path: Path, demo_model: Path, environment: dict[str, str]
):
    (tmp_path / "task.py").write_text("import time\ntime.sleep(900)\n")
    run = subprocess.Popen(
        command(demo_model, tmp_path / "answers"),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 900
        processes: list[psutil.Process] = []
        while time.monotonic() < deadline:
            processes = psutil.Process(run.pid).children(recursive=True)
            if any("--log-dir" in _command(p) for p in processes):
                break
            time.sleep(0.5)
        assert any("--log-dir" in _command(p) for p in processes)
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) == 143
        _, alive = psutil.wait_procs(processes, timeout=60)
        assert alive == []
    finally:
        run.kill()
        run.wait()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
