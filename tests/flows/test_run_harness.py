"""`regrade harness` with real Inspect or a small agent, which need no containers here, against the real server that regrade starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.states import Cancelling

from regrade.answers.local import LocalRepository
from regrade.exchange.importing.importer import import_files
from regrade.records.trajectory import read_trajectory
from tests.architectures import seeing_model
from tests.command_line import ROOT, run
from tests.crash.harness import ENDING_SECONDS, Command, wait_until
from tests.exchange.importing.test_tasks_of_datasets import publish_task
from tests.exchange.importing.test_verifiers import METADATA, rollout
from tests.hub_server.fixtures import Hub
from tests.pictures import image
from tests.prefect_fixtures import state_of
from tests.stored import sets_in

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
    return {"PATH": path, "PYTHONPATH": str(ROOT)}


def ran(words: list[str], folder: Path, environment: dict[str, str]) -> Any:
    """Run a command in a folder until it ends well, and return what it printed."""
    done = run(words, 1400, environment, folder)
    assert done.code == 0, done.err[-4000:]
    return done.document


def command(
    demo_model: Path, answers: Path, harness: str | None = "inspect", task: str = "task.py"
) -> list[str]:
    """The command without what follows `--`; of Inspect with its task."""
    program = "from regrade.cli.main import main; main()"
    known = [] if harness is None else ["--harness", harness]
    asked = [] if harness is None else ["--", task, "--max-tokens", "32"]
    return [
        *(sys.executable, "-c", program, "harness", str(demo_model), *known),
        *("--engine.tool-parser", "hermes", "--engine.enforce-eager"),
        *("--engine.max-model-len", "512", "--answers", str(answers), "--json"),
        *("--engine.extra", f"kv_cache_memory_bytes={1 << 28}"),
        *asked,
    ]


def test_inspects_agent_asks_the_served_model_and_its_log_is_imported(
    tmp_path: Path, demo_model: Path, environment: dict[str, str]
):
    (tmp_path / "task.py").write_text(TASK)
    document = ran(command(demo_model, tmp_path / "answers"), tmp_path, environment)
    [found] = document["answer_sets"]
    assert "loading" in document["time_spent"]["parts"]
    assert (found["format"], found["benchmark"], found["rows"]) == ("inspect", "addition", 2)
    assert found["originals"][0]["n"] == 2
    [answers] = sets_in(tmp_path / "answers")
    assert answers.manifest.specification.model.name == demo_model.name
    for batch in answers.batches(["trajectory", "text", "completion_tokens"]):
        for row in batch.to_pylist():
            did = read_trajectory(row["trajectory"])
            assert did is not None
            assert [message.role for message in did] == [
                *("assistant", "assistant", "tool", "assistant")
            ]
            assert row["completion_tokens"] > 0


def test_a_datasets_own_task_shows_its_images_to_the_served_model(
    tmp_path: Path, demo_model: Path, environment: dict[str, str], hub: Hub
) -> None:
    shown = [image(1, size=(64, 64)), image(2, "JPEG", (64, 64))]
    name = publish_task(hub, shown, tmp_path / "rows")
    model = seeing_model("qwen3_vl", demo_model, tmp_path / "model")
    given = command(model, tmp_path / "answers", task=f"hf/{name}")
    sized = 'mm_processor_kwargs={"size": {"shortest_edge": 4096, "longest_edge": 16384}}'
    given[given.index("--json") : given.index("--json")] = ["--engine.extra", sized]

    at_hub = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home")}
    ran(given, tmp_path, environment | at_hub)

    [answers] = sets_in(tmp_path / "answers")
    columns = ["images", "text", "prompt_tokens", "error"]
    rows = [row for batch in answers.batches(columns) for row in batch.to_pylist()]
    assert [row["images"] for row in rows] == [[image.sha256] for image in shown]
    assert [(row["error"], row["text"] is not None) for row in rows] == [(None, True)] * 2
    assert [answers.images.read(image.sha256) for image in shown] == shown


AGENT = f"""
import json, os, sys, urllib.request
from pathlib import Path

TOOL = {{
    "type": "function",
    "function": {{
        "name": "paint",
        "strict": True,
        "parameters": {{
            "type": "object",
            "properties": {{"colour": {{"type": "string", "enum": ["red", "blue"]}}}},
            "required": ["colour"],
            "additionalProperties": False,
        }},
    }},
}}
output, url, model = sys.argv[1:]


def ask(messages, **more):
    body = {{"model": model, "messages": messages, "max_tokens": 200, "temperature": 0}} | more
    key = {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}}
    asked = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), key)
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)["choices"][0]["message"]


given = [{{"role": "user", "content": "Paint it."}}]
chosen = {{"type": "function", "function": {{"name": "paint"}}}}
called = ask(given, tools=[TOOL], tool_choice=chosen, frequency_penalty=2)  # or it goes on with spaces
[call] = called["tool_calls"]
colour = json.loads(call["function"]["arguments"])["colour"]
made = [
    {{"role": "assistant", "content": "", "tool_calls": [call]}},
    {{"role": "tool", "tool_call_id": call["id"], "content": "It is " + colour + "."}},
]
made.append({{"role": "assistant", "content": ask([*given, {{"role": "assistant", "content": colour}}, *given])["content"]}})
row = {rollout()!r} | {{"prompt": given, "completion": made}}
(Path(output) / "metadata.json").write_text(json.dumps({METADATA!r}))
(Path(output) / "results.jsonl").write_text(json.dumps(row) + chr(10))
"""


def test_a_call_that_the_model_made_itself_is_in_the_trajectory(
    tmp_path: Path, demo_model: Path
) -> None:
    """The server keeps the call to the function's form, as a harness asks it to, so that any model makes one."""
    (tmp_path / "agent.py").write_text(AGENT)
    given = command(demo_model, tmp_path / "answers", harness=None)
    program = [sys.executable, str(tmp_path / "agent.py"), "{output}", "{base_url}", "{model}"]
    ran([*given, "--", *program], tmp_path, {"PYTHONPATH": str(ROOT)})

    [answers] = sets_in(tmp_path / "answers")
    [row] = [r for b in answers.batches(["trajectory", "text"]) for r in b.to_pylist()]
    did = read_trajectory(row["trajectory"])
    assert did is not None
    call, result, last = (message.parts[-1] for message in did)
    assert (call.kind, call.name) == ("tool_call", "paint")
    assert call.arguments["colour"] in ("red", "blue")
    assert result.text == f"It is {call.arguments['colour']}."
    assert (result.call, last.text) == (call.call, row["text"])


STUBBORN = f"""
import json, signal, subprocess, sys, time
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)"])  # a child ignores it, too
output = Path(sys.argv[1])
(output / "metadata.json").write_text(json.dumps({METADATA!r}))
(output / "results.jsonl").write_text(json.dumps({rollout()!r}) + chr(10))
(output / "begun").touch()
time.sleep(900)
"""


def test_a_run_that_prefect_cancels_ends_harness_and_server_and_its_log_names_what_is_kept(
    tmp_path: Path, demo_model: Path, prefect_server: str, client: SyncPrefectClient
):
    """Though the harness, like its child, does not end when it is told to."""
    (tmp_path / "agent.py").write_text(STUBBORN)
    queue = f"harness-{uuid4()}"
    environment = {
        "PREFECT_API_URL": prefect_server,
        "PYTHONPATH": str(ROOT),
        "REGRADE_REMOTE_CODE": "1",
    }
    given = ["worker", "--pool", "gpu", "--limit", "1", "--work-queue", queue]
    worker = Command(tmp_path / "home", given, environment)
    parameters = {
        "model": str(demo_model),
        "arguments": [sys.executable, str(tmp_path / "agent.py"), "{output}"],
        "engine": {
            "kind": "vllm",
            "enforce_eager": True,
            "max_model_len": 512,
            "extra": [f"kv_cache_memory_bytes={1 << 28}"],
        },
        "answers": str(tmp_path / "answers"),
    }
    logs = worker.home / "logs"
    with worker.started() as started:
        deployment = client.read_deployment_by_name("run-harness/run-harness")
        run = client.create_flow_run_from_deployment(
            deployment.id, parameters=parameters, work_queue_name=queue
        )

        def begun() -> bool:
            assert not state_of(client, run).is_final(), (
                state_of(client, run),
                started.err.read_text()[-5000:],
            )
            return bool([*logs.glob("*.output/begun")])

        wait_until(begun, 900, "the harness did not begin")
        [left] = logs.glob("*.output")
        of_worker = {started.process.pid}
        assert len(worker.processes("agent.py")) == 2  # with its supervisor
        assert worker.processes("vllm.entrypoints")
        client.set_flow_run_state(run.id, Cancelling())
        wait_until(lambda: state_of(client, run).is_final(), 120, "the run was not cancelled")
        assert state_of(client, run).is_cancelled()
        wait_until(
            lambda: set(worker.processes()) == of_worker, ENDING_SECONDS, "processes are left"
        )
        told = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])))
        named = f"The harness writes into '{left}', which stays unless it is imported."
        assert [log.message for log in told].count(named) == 1
        started.process.send_signal(signal.SIGTERM)
        started.wait(60)
    worker.assert_nothing_left()
    assert not (tmp_path / "answers").exists()
    imports = import_files(LocalRepository(tmp_path / "later"), [left])
    assert [kept.answers.manifest.rows for kept in imports.sets] == [1]
