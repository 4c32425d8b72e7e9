"""Parameters of a run that a worker started name no code, and no file outside of the folders that its owner named."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from regrade.comparing.job import CompareJob
from regrade.jobs.job import EvaluationJob, JudgeJob, RescoringJob, ScoringJob, make_job
from regrade.jobs.replay import ReplayJob
from regrade.settings import Settings
from regrade.settings.marks import ABSENT, PATH, OnWorker
from regrade.settings.problems import models_in
from regrade.settings.worker_limits import RefusedParameterError, check_parameters, marks_of
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.search.job import TuneJob
from regrade.tuning.sweep.points import SweepJob

RUN: dict[str, Any] = {
    "model": "org/name",
    "benchmarks": ["gsm8k"],
    "answers": "hf://datasets/org/a",
}
HARMLESS = {
    # engine `openai`: see docs/security.md
    *("api_key_env", "model_revision", "base_url", "more_base_urls"),
    # vLLM's and our choices
    *("quantization", "kv_cache_dtype", "reasoning_parser", "tool_parser", "gpu", "gpu_memory"),
    *("name", "benchmark", "benchmarks", "tasks", "max_drop_of"),
    *("config", "revision", "split", "shots_split", "answer_set"),
    *("target_column", "choices_column", "subset_column", "doc_columns"),
    *("messages_column", "turns_column", "tools_column"),
    # texts and templates
    *("prompt", "system", "prefill", "shot_answer", "chat_template_args", "stop"),
    *("setting", "values"),  # axes of a sweep, whose points are checked as jobs
    "share",
}
"""Text parameters that need no check."""
JOBS: tuple[type[Settings], ...] = (
    *(EvaluationJob, SweepJob, TuneJob, JudgeJob),
    *(ScoringJob, RescoringJob, CompareJob, PlanRequest, ReplayJob),
)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder that runs may name; the process is that of a run."""
    folder = tmp_path / "shared"
    folder.mkdir()
    (tmp_path / "private").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "any")
    monkeypatch.setenv("REGRADE_FOLDERS", f"{folder}:~/none")
    monkeypatch.setenv("REGRADE_REMOTE_CODE", "0")
    return folder


def own(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "own", "path": "org/name", **changes}]


@pytest.mark.parametrize(
    "change",
    [
        {"model": "/etc"},
        {"model": "private"},
        {"model": "shared/../private"},
        {"model": "~/.ssh"},
        {"model": "../org"},
        {"answers": "/etc/answers"},
        {"answers": "not/yet"},
        {"answers": "file:///etc/answers"},
        {"answers": "https://host/../../../../../../../../etc/answers"},
        {"prompt": {"chat_template": "hf://org/../../../../../../../../etc/passwd"}},
        {"tracking_uri": "sqlite:////etc/mlflow.db"},
        {"tracking_uri": "sqlite:///file:/etc/x?uri=true"},
        {"tracking_uri": "postgresql://evil.example/x"},
        {"datasets": own(path="/etc/passwd")},
        {"datasets": own(shots_path="private")},
        {"sources": [{"benchmark": "gsm8k", "path": "/etc/passwd"}]},
        {"prompt": {"chat_template": "/etc/passwd"}},
        {"engine": {"lora": "/etc"}},
        {"engine": {"extra": ["tokenizer=/etc/x"]}},
        {"gate": {"base_answers": "/etc"}},
        {"judge": {"judges": ["org/judge", "/etc"]}},
    ],
)
def test_a_path_outside_of_the_folders_of_a_worker_is_refused(change: dict[str, Any], shared: Path):
    with pytest.raises(RefusedParameterError, match=f"none of the folders .* {shared}, ~/none"):
        make_job(EvaluationJob, RUN | change)


def test_a_path_is_limited_whatever_type_its_field_has(shared: Path):
    class Job(Settings):
        folder: Annotated[Path, PATH]

    with pytest.raises(RefusedParameterError, match="`folder`"):
        check_parameters(Job(folder=Path("/etc")))
    check_parameters(Job(folder=shared / "answers"))


def test_a_link_does_not_lead_out_of_the_folders(shared: Path):
    (shared / "link").symlink_to("/etc")

    with pytest.raises(RefusedParameterError, match="shared/link"):
        make_job(EvaluationJob, RUN | {"model": "shared/link"})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"model": "org/name@v1.0", "judge": {"judges": ["org/judge@main"], "rubric": "correct"}},
        {"model": "{shared}/step-100", "answers": "{shared}/answers"},
        {"model": "shared/step-100", "tracking_uri": "sqlite:///shared/mlflow.db"},
        {"gate": {"baseline": "last-good"}},
        {"datasets": own(path="shared/questions.jsonl", prompt="Read /etc/x.py:main")},
        {"scorer": "number"},
        {"scorer": "number(last=true)"},
        {"lm_eval": {"tasks": ["arc_challenge"]}},
        {"engine": {"extra": ["tokenizer=org/name", "max_num_seqs=4", "trust_remote_code=false"]}},
    ],
)
def test_names_addresses_and_paths_in_the_folders_are_accepted(
    change: dict[str, Any], shared: Path
):
    here = {k: v.format(shared=shared) if isinstance(v, str) else v for k, v in change.items()}

    make_job(EvaluationJob, RUN | here)


@pytest.mark.parametrize("own", ["https://mlflow.example/", "https://me:word@mlflow.example"])
def test_credentials_for_mlflow_go_to_the_server_of_the_worker_only(
    own: str, shared: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for configured in (None, own):
        if configured is not None:
            monkeypatch.setenv("MLFLOW_TRACKING_URI", configured)
            for known in (own, "https://mlflow.example", "sqlite:///shared/mlflow.db"):
                make_job(EvaluationJob, RUN | {"tracking_uri": known})
        for other in (
            "http://mlflow.example",
            "https://evil.example",
            "https://evil.example?@mlflow.example",
            "https://mlflow.example:8443",
            "https://mlflow.example.evil.example",
        ):
            with pytest.raises(RefusedParameterError, match="MLflow server of this worker"):
                make_job(EvaluationJob, RUN | {"tracking_uri": other})


@pytest.mark.parametrize(
    "change",
    [
        {"scorer": "shared/own.py:own"},
        {"scorer": "shared/own.py:own(last=true)"},
        {"scorer": "shared/own.py:own( last = true )"},
        {"datasets": own(scorer="shared/own.py:own")},
        {"lm_eval": {"tasks": ["evil"], "path": "shared"}},
        {"scoring": {"lm_eval_path": "shared"}},
        {"judge": {"judges": ["org/judge"], "rubric": "shared/own.jinja"}},
    ],
)
def test_code_that_is_not_installed_needs_the_word_of_the_worker(
    change: dict[str, Any], shared: Path, monkeypatch: pytest.MonkeyPatch
):
    (shared / "own.jinja").touch()
    with pytest.raises(RefusedParameterError, match=r"not installed .* REGRADE_REMOTE_CODE=1"):
        make_job(EvaluationJob, RUN | change)
    monkeypatch.setenv("REGRADE_REMOTE_CODE", "1")
    make_job(EvaluationJob, RUN | change)
    monkeypatch.setenv("REGRADE_FOLDERS", "/elsewhere")
    with pytest.raises(RefusedParameterError, match="in none of the folders"):
        make_job(EvaluationJob, RUN | change)


@pytest.mark.parametrize(
    "pair",
    [
        "trust_remote_code=true",
        "worker_cls=evil.Worker",
        "log_config_file=x.json",
        "attention_backend=evil.Backend",
        "distributed_executor_backend=evil.Executor",
        "tokenizer=evil",
        "speculative_config={method: custom_class, model: evil/x}",
        "speculative_config={model: os.system}",
        "speculative_config={method: ngram, some_new_plugin: x}",
        "hf_overrides={auto_map: {AutoModel: evil}}",
        "compilation_config={backend: evil.compile}",
        "an_argument_of_a_later_version=1",
    ],
)
def test_an_engine_argument_that_is_not_known_to_run_no_code_is_refused(pair: str, shared: Path):
    with pytest.raises(RefusedParameterError, match="`engine.extra`: .* REGRADE_REMOTE_CODE=1"):
        make_job(EvaluationJob, RUN | {"engine": {"extra": [pair]}})


@pytest.mark.parametrize(
    "pair",
    [
        "attention_backend=TRITON_ATTN",
        "kv_cache_memory_bytes=268435456",
        "cudagraph_capture_sizes=[1, 2]",
        "hf_overrides={rope_parameters: {rope_type: yarn, factor: 4.0}}",
        "speculative_config={method: ngram, num_speculative_tokens: 3}",
        "speculative_config={method: eagle3, model: org/draft, num_speculative_tokens: 3}",
    ],
)
def test_an_engine_argument_with_numbers_and_choices_is_accepted(pair: str, shared: Path):
    make_job(EvaluationJob, RUN | {"engine": {"extra": [pair]}})


def test_the_points_of_a_sweep_are_checked_too(shared: Path):
    axes = [{"setting": "prompt.chat_template", "values": ["default", "/etc/passwd"]}]

    with pytest.raises(RefusedParameterError, match="/etc/passwd"):
        make_job(SweepJob, RUN | {"axes": axes})


@pytest.mark.parametrize("missing", ["PREFECT__FLOW_RUN_ID", "REGRADE_FOLDERS"])
def test_nothing_is_limited_on_the_command_line(
    missing: str, shared: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(missing)

    make_job(EvaluationJob, RUN | {"model": "/etc", "scorer": "x.py:own"})


def test_an_empty_list_of_folders_shares_none(shared: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGRADE_FOLDERS", "")

    with pytest.raises(RefusedParameterError, match="shared"):
        make_job(EvaluationJob, RUN | {"model": "shared"})


def fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield name, field
        for group in models_in(field.annotation):
            yield from fields(group)


def test_every_text_parameter_is_checked_by_its_mark_or_known_to_be_harmless():
    texts = [
        (name, any(mark == PATH or isinstance(mark, OnWorker) for mark in marks_of(field)))
        for job in JOBS
        for name, field in fields(job)
        if ABSENT not in field.metadata
        and "str" in re.findall(r"\w+", str(field.annotation))
        and "Literal" not in str(field.annotation)
    ]

    assert {name for name, is_checked in texts if not is_checked} == HARMLESS
