"""An external harness against a served model: its command, its end, its files. The server itself is in `tests/flows/test_run_harness.py`."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from regrade.answers.local import LocalRepository
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.process import EngineProcess
from regrade.engines.vllm_process.server import ModelServer, server_arguments
from regrade.exchange import harness
from regrade.exchange.harness import HarnessError, HarnessJob, run_harness
from regrade.exchange.importing.files import ImportFileError
from regrade.exchange.importing.importer import Imports, import_files
from regrade.jobs.time_spent import RunClock
from regrade.models.base import ResolvedModel
from regrade.settings.errors import SettingsError
from regrade.settings.worker_limits import RefusedParameterError, check_parameters
from tests.exchange.importing.test_verifiers import METADATA, rollout

LEAVE = f"""
import json, os, sys
from pathlib import Path
folder = Path(sys.argv[1]) / "evals"
folder.mkdir()
(folder / "metadata.json").write_text(json.dumps({METADATA!r}))
(folder / "results.jsonl").write_text(json.dumps({rollout()!r}) + chr(10))
(folder / "seen.txt").write_text(json.dumps(dict(os.environ)))
print("asked", sys.argv[2:], os.environ["OPENAI_BASE_URL"], flush=True)
"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[EngineProcess]:
    """A process in the place of vLLM's server, which the programs here do not ask."""
    started: list[EngineProcess] = []

    @contextmanager
    def serving(*_: object) -> Iterator[ModelServer]:
        process = EngineProcess(["sleep", "600"], tmp_path / "engine.log")
        started.append(process)
        try:
            yield ModelServer("http://127.0.0.1:1/v1", "secret-key", process)
        finally:
            process.end()

    monkeypatch.setattr(harness, "serving", serving)
    return started


def run(
    tmp_path: Path, demo_model: Path, source: str, clock: RunClock | None = None, **changes: Any
) -> Imports:
    script = tmp_path / "agent.py"
    script.write_text(source)
    arguments = (sys.executable, str(script), "{output}", "{base_url}", "{model}")
    job = HarnessJob(
        model=str(demo_model), arguments=arguments, answers=str(tmp_path / "answers"), **changes
    )
    clock = clock or RunClock()
    return run_harness(job, tmp_path / "harness.log", tmp_path / "engine.log", clock)


def test_what_a_harness_leaves_is_imported_under_the_served_model_and_kept_nowhere_else(
    tmp_path: Path, demo_model: Path, served: list[EngineProcess], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "login")
    monkeypatch.setenv("HF_TOKEN", "token")
    tell = LEAVE + "print('seen', sorted(os.environ), os.environ['OPENAI_API_KEY'])"
    clock = RunClock()
    [one] = run(tmp_path, demo_model, tell, clock=clock).sets
    spent = clock.spent(0, 0)
    assert spent is not None
    assert {*spent.parts} == {"loading", "generating", "idle"}
    assert one.answers.manifest.specification.model.name == demo_model.name
    assert one.answers.manifest.specification.benchmark.name == "adding"
    assert one.originals[0].summary.overall.accuracy == 1.0
    told = (tmp_path / "harness.log").read_text()
    assert "asked ['http://127.0.0.1:1/v1', 'model'] http://127.0.0.1:1/v1" in told
    assert served[0].has_ended()
    assert not (tmp_path / "harness.output").exists()
    # The program has the server's key, and no credential of the team.
    assert "secret-key" in told
    assert "PREFECT_API_AUTH_STRING" not in told
    assert "HF_TOKEN" not in told


@pytest.mark.parametrize(
    ("source", "changes", "says"),
    [
        ("import sys; print('no such task'); sys.exit(3)", {}, "exit code 3.*no such task"),
        ("import time; time.sleep(600)", {"time_limit": 1.0}, r"ended after 1 s \(`time_limit`\)"),
    ],
)
def test_a_harness_that_fails_or_takes_too_long_is_named_and_imports_nothing(
    tmp_path: Path,
    demo_model: Path,
    served: list[EngineProcess],
    source: str,
    changes: dict[str, Any],
    says: str,
):
    with pytest.raises(HarnessError, match=says):
        run(tmp_path, demo_model, source, **changes)
    assert not (tmp_path / "answers" / "answers").exists()
    assert not (tmp_path / "harness.output").exists()  # it left nothing
    assert served[0].has_ended()


def test_what_a_harness_did_before_a_cancel_is_named_and_can_be_imported(
    tmp_path: Path,
    demo_model: Path,
    served: list[EngineProcess],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    def cancel(_: str, *values: object) -> None:
        if "asked" in str(values):
            raise SystemExit(143)  # as SIGTERM, which a cancel from Prefect's page sends

    monkeypatch.setattr(harness.logger, "info", cancel)
    with pytest.raises(SystemExit):
        run(tmp_path, demo_model, LEAVE + "import time; time.sleep(600)")

    left = tmp_path / "harness.output"
    assert f"`regrade import {left}` reads what is complete" in caplog.text
    assert served[0].has_ended()
    imports = import_files(LocalRepository(tmp_path / "later"), [left])
    assert [kept.answers.manifest.rows for kept in imports.sets] == [1]


def test_a_server_that_ends_ends_the_harness(
    tmp_path: Path, demo_model: Path, served: list[EngineProcess], monkeypatch: pytest.MonkeyPatch
):
    logged = harness.logger.info

    def end_server(text: str, *values: object) -> None:
        logged(text, *values)
        if "begun" in str(values):
            os.kill(served[0].pid, 15)

    monkeypatch.setattr(harness.logger, "info", end_server)
    started = time.monotonic()
    with pytest.raises(HarnessError, match="vLLM's server ended while the harness ran"):
        run(tmp_path, demo_model, "import time; print('begun', flush=True); time.sleep(600)")
    assert time.monotonic() - started < 120


def test_a_harness_that_leaves_nothing_readable_is_an_error(
    tmp_path: Path, demo_model: Path, served: list[EngineProcess]
):
    with pytest.raises(SettingsError, match="There is nothing to import"):
        run(tmp_path, demo_model, "pass")
    broken = LEAVE + "(folder / 'results.jsonl').write_text('{')"
    with pytest.raises(ImportFileError, match="not JSON"):
        run(tmp_path, demo_model, broken)
    assert len(served) == 2


def test_a_program_that_is_not_installed_is_refused_before_anything_starts(
    tmp_path: Path, served: list[EngineProcess]
):
    job = HarnessJob(model="org/m", arguments=("no-such-program", "{output}"), answers="a")
    with pytest.raises(SettingsError, match="program 'no-such-program' is not installed here"):
        run_harness(job, tmp_path / "h.log", tmp_path / "e.log", RunClock())
    assert served == []


def test_known_harnesses_need_only_a_task():
    job = HarnessJob(model="org/m", harness="inspect", arguments=("task.py", "--limit", "3"))
    assert job.command("http://h/v1", "/out") == [
        *("inspect", "eval", "--model", "openai-api/regrade/model"),
        *("--model-base-url", "http://h/v1", "--log-dir", "/out", "--log-format", "json"),
        *("--display", "plain", "task.py", "--limit", "3"),
    ]
    harbor = HarnessJob(model="org/m", harness="harbor", arguments=("--dataset", "d"))
    assert harbor.command("u", "/out")[:4] == ["harbor", "run", "--model", "hosted_vllm/model"]
    with pytest.raises(ValidationError, match="should write its files into `{output}`"):
        HarnessJob(model="org/m", arguments=("agent", "{base_url}"))


def test_on_a_worker_a_harness_needs_leave_to_run_code(monkeypatch: pytest.MonkeyPatch):
    job = HarnessJob(model="org/m", harness="inspect", arguments=("task.py",))
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "1")
    monkeypatch.setenv("REGRADE_FOLDERS", "/nowhere")
    monkeypatch.setenv("REGRADE_REMOTE_CODE", "0")
    with pytest.raises(RefusedParameterError, match="`arguments`: .*REGRADE_REMOTE_CODE=1"):
        check_parameters(job)
    monkeypatch.setenv("REGRADE_REMOTE_CODE", "1")
    check_parameters(job)


def test_the_servers_arguments_are_those_of_the_engine(resolved_model: ResolvedModel):
    engine = VllmEngine(max_model_len=512, enforce_eager=True, tool_parser="hermes")
    found = server_arguments(engine, resolved_model)
    assert found["served-model-name"] == "model"
    assert (found["max-model-len"], found["enforce-eager"]) == (512, True)
    assert (found["enable-auto-tool-choice"], found["tool-call-parser"]) == (True, "hermes")
    assert "reasoning-parser" not in found
    with pytest.raises(SettingsError, match="neither `engine.lora` nor `engine.tuned`"):
        server_arguments(VllmEngine(tuned=True), resolved_model)
