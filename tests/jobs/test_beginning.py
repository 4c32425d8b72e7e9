from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.engines.openai import OpenAIEngine
from regrade.engines.vllm import VllmEngine
from regrade.jobs import plans_of_job
from regrade.jobs.job import EngineJob, EvaluationJob
from regrade.jobs.plans_of_job import begin, checked_benchmarks, engine_begun, planned, plans_of_all
from tests.engine_fixtures import FAST
from tests.limited_engine import demo_asked

Begun = Callable[..., list[bool]]


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    return demo_asked(tmp_path, 2, "sums")


@pytest.fixture
def begun(given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begun:
    """Begins a job, and returns for each worker that was started early whether it got the token of the Hub."""
    started: list[bool] = []
    monkeypatch.setattr(
        plans_of_job, "start_early", lambda log, *, hub_token: started.append(hub_token)
    )

    def begin_with(**settings: object) -> list[bool]:
        job = EvaluationJob.model_validate(given | {"engine": FAST} | settings)
        plans = begin(plans_of_all, job)
        with engine_begun(job, tmp_path / "log", plans) as begins:
            assert begins is bool(started)
        return started

    return begin_with


@pytest.mark.parametrize(
    ("stored", "settings", "started"),
    [
        (None, {}, [False]),
        (
            None,
            {"engine": FAST.model_copy(update={"extra": ("seed=1",)})},
            [True],
        ),  # may load from there
        (None, {"follow": 60}, []),  # models that are to come
        ("complete", {}, []),
        ("complete", {"reuse": {"fresh": True}}, [False]),
        ("complete", {"reuse": {"heal": True}}, [False]),
        ("incomplete", {}, [False]),
    ],
)
def test_the_engine_imports_vllm_while_the_flow_is_prepared_unless_all_answers_are_stored_and_stay(
    begun: Begun,
    monkeypatch: pytest.MonkeyPatch,
    stored: str | None,
    settings: dict[str, object],
    started: list[bool],
):
    found = SimpleNamespace(manifest=SimpleNamespace(state=stored)) if stored else None
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
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    job = EvaluationJob.model_validate(given)
    begin(checked_benchmarks, job)
    monkeypatch.setattr(plans_of_job, "open_benchmarks", None)

    assert len(plans_of_all(job)) == 1
