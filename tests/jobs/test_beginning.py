from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from regrade.engines.openai import OpenAIEngine
from regrade.engines.vllm import VllmEngine
from regrade.jobs import plans_of_job
from regrade.jobs.job import EngineJob, EvaluationJob
from regrade.jobs.plans_of_job import begin, checked_benchmarks, engine_begun, planned, plans_of_all
from tests.engine_fixtures import FAST
from tests.limited_engine import questions

Begun = Callable[..., list[bool]]


@pytest.fixture
def begun(demo_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begun:
    """Begins a job, and returns for each worker that was started early whether it got the token of the Hub."""
    started: list[bool] = []
    monkeypatch.setattr(
        plans_of_job, "start_early", lambda log, *, hub_token: started.append(hub_token)
    )
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    dataset = {"name": "sums", "path": str(questions), "format": "completion", "scorer": "number"}

    def begin_with(**settings: object) -> list[bool]:
        given = {
            "model": str(demo_model),
            "answers": str(tmp_path / "answers"),
            "datasets": [dataset],
            "engine": FAST,
        }
        job = EvaluationJob.model_validate(given | settings)
        plans = begin(plans_of_all, job)
        with engine_begun(job, tmp_path / "log", plans) as begins:
            assert begins is bool(started)
        return started

    return begin_with


@pytest.mark.parametrize(
    ("settings", "started"),
    [
        ({}, [False]),
        ({"engine": FAST.model_copy(update={"extra": ("seed=1",)})}, [True]),  # may load from there
        ({"follow": 60}, []),  # models that are to come
    ],
)
def test_the_engine_imports_vllm_while_the_flow_is_prepared(
    begun: Begun, settings: dict[str, object], started: list[bool]
):
    assert begun(**settings) == started


@pytest.mark.parametrize(
    ("state", "settings", "started"),
    [
        ("complete", {}, []),
        ("complete", {"reuse": {"fresh": True}}, [False]),
        ("complete", {"reuse": {"heal": True}}, [False]),
        ("incomplete", {}, [False]),
    ],
)
def test_no_engine_begins_if_all_answers_are_stored_and_stay(
    begun: Begun,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    settings: dict[str, object],
    started: list[bool],
):
    found = SimpleNamespace(manifest=SimpleNamespace(state=state))
    monkeypatch.setattr(plans_of_job, "find_set", lambda *_: found)

    assert begun(**settings) == started


def test_no_engine_begins_where_engines_wait_for_each_other(
    begun: Begun, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_ENGINE_SLOTS", "1")

    assert begun() == []


def test_a_flow_takes_what_was_planned_for_its_job_once_and_nothing_of_an_engine_of_another_kind():
    def plan(job: EngineJob) -> list[str]:
        return [job.engine.kind]

    ours, served = (
        EngineJob(model="m", engine=engine) for engine in (VllmEngine(), OpenAIEngine())
    )
    begun = begin(plan, ours)

    assert planned(plan, served) == ["openai"]
    assert planned(plan, EngineJob(model="m", engine=VllmEngine())) is begun
    assert planned(plan, ours) is not begun


def test_benchmarks_that_were_checked_before_a_model_is_looked_up_are_not_opened_again(
    demo_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    dataset = {"name": "sums", "path": str(questions(tmp_path, 2)), "scorer": "number"}
    given = {"model": str(demo_model), "datasets": [dataset], "answers": str(tmp_path / "answers")}
    job = EvaluationJob.model_validate(given)
    begin(checked_benchmarks, job)
    monkeypatch.setattr(plans_of_job, "open_benchmarks", None)

    assert len(plans_of_all(job)) == 1
