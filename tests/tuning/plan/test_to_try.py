"""The splits that `regrade tune` tries: those that the plan of this machine allows."""

import logging
from typing import Any

import pytest

from regrade.jobs.job import GenerationJob, make_job
from regrade.settings.errors import SettingsError
from regrade.tuning.plan import planner
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.planner import splits_to_try
from regrade.tuning.plan.request import PlanRequest
from tests.tuning.plan.made import plan as plan_of
from tests.tuning.plan.made import split

CHOSEN = split(2, 2, 120.0)
PLAN = plan_of(split(1, 4, 2.0, lacking=5), split(4, 1, 500.0), CHOSEN, chosen=CHOSEN)


def job(**engine: Any) -> GenerationJob:
    return make_job(
        GenerationJob,
        {
            "model": "org/name",
            "datasets": ({"name": "mine", "path": "mine.jsonl", "scorer": "number"},),
            "limit": 50,
            "answers": "/answers",
            "engine": engine,
        },
    )


def test_the_choice_of_the_plan_comes_first_and_what_does_not_fit_is_left_out():
    assert [(s.tensor, s.pipeline, s.data) for s in PLAN.to_try] == [(2, 1, 2), (4, 1, 1)]


def test_the_plan_is_made_for_the_questions_that_are_measured(monkeypatch: pytest.MonkeyPatch):
    asked: list[PlanRequest] = []

    def plan(request: PlanRequest, **_: Any) -> MemoryPlan:
        asked.append(request)
        return PLAN

    monkeypatch.setattr(planner, "make_memory_plan", plan)
    given = job(dtype="bfloat16")
    assert splits_to_try(given, 4) == [s.settings for s in PLAN.to_try]
    (request,) = asked
    assert (request.datasets, request.limit, request.gpus) == (given.datasets, 50, 4)
    assert (request.engine, request.answers) == (given.engine, "/answers")


def test_where_a_plan_cannot_be_made_only_the_given_split_is_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def plan(*_: Any, **__: Any) -> Any:
        raise SettingsError("The length of the prompts is not known.")

    monkeypatch.setattr(planner, "make_memory_plan", plan)
    assert splits_to_try(job(tensor_parallel_size=2), 4) == [{"tensor_parallel_size": 2}]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "length of the prompts is not known" in record.getMessage()


def test_without_several_gpus_there_is_nothing_to_plan():
    assert splits_to_try(job(), 1) == [{}]
    assert splits_to_try(job(tensor_parallel_size=8), 0) == [{"tensor_parallel_size": 8}]
