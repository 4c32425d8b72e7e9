"""Splits that `tune-settings` asks the plan for, and the settings that it keeps."""

import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from flows import tune_settings as flow
from regrade.jobs.job import make_job
from regrade.settings.errors import SettingsError
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.search.hardware import Hardware
from regrade.tuning.search.job import TuneJob
from regrade.tuning.search.records import TuningKey
from regrade.tuning.search.search import TOKENS
from regrade.tuning.search.text import trial_rows
from regrade.tuning.search.trials import Rung, Search, Trial
from regrade.tuning.search.workload import Workload
from tests.builders import specification

KEY = TuningKey(
    model=specification().model,
    hardware=Hardware(device="NVIDIA H100", count=4),
    vllm="0.32",
    workload=Workload(method="generate", prompt=8, answer=9, thinking="answers"),
)
JOB = make_job(
    TuneJob,
    {
        "model": "org/name",
        "datasets": ({"name": "mine", "path": "mine.jsonl", "scorer": "number"},),
        "limit": 50,
        "answers": "/answers",
        "engine": {"dtype": "bfloat16"},
    },
)


def test_the_plan_is_made_for_the_questions_that_are_measured(monkeypatch: pytest.MonkeyPatch):
    asked: list[PlanRequest] = []

    def plan(request: PlanRequest, **_: Any) -> Any:
        asked.append(request)
        return SimpleNamespace(target=SimpleNamespace(title="4 GPUs"), advice="It fits.")

    monkeypatch.setattr(flow, "make_memory_plan", plan)
    assert flow._plan_memory(JOB, KEY) is not None
    (request,) = asked
    assert (request.datasets, request.limit, request.gpus) == (JOB.datasets, 50, 4)
    assert (request.engine, request.answers) == (JOB.engine, "/answers")


def test_where_a_plan_cannot_be_made_only_the_given_split_is_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def plan(*_: Any, **__: Any) -> Any:
        raise SettingsError("The length of the prompts is not known.")

    monkeypatch.setattr(flow, "make_memory_plan", plan)
    assert flow._plan_memory(JOB, KEY) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "length of the prompts is not known" in record.getMessage()


@pytest.mark.parametrize(("in_flight", "per_copy"), [(64, 16), (66, 17), (1, 1)])
def test_requests_in_flight_are_divided_between_the_copies_of_a_model(
    in_flight: int, per_copy: int
):
    found = Search(starts=1)
    split = {"tensor_parallel_size": 1, "data_parallel_size": 4, TOKENS: 4096}
    for n in (in_flight, 2 * in_flight):
        found.trials.append(Trial(0, split, Rung(n, 9.0 / n, 32, 1.0)))
    chosen = found.best()
    assert chosen is not None
    work: Any = SimpleNamespace(plan=SimpleNamespace(specification=specification()))

    tuning = flow._tuning(JOB, work, KEY, found, chosen)

    assert tuning.settings["max_num_seqs"] == per_copy
    assert tuning.in_flight == in_flight
    assert tuning.measured_at <= datetime.now(UTC)
    assert [row[-1] for row in trial_rows(tuning)] == ["chosen", ""]


def test_a_split_with_other_tokens_of_a_step_is_not_marked_as_chosen():
    found = Search(starts=2)
    split = {"tensor_parallel_size": 2, "data_parallel_size": 2}
    for start, tokens in enumerate((4096, 8192)):
        found.trials.append(
            Trial(start, {**split, TOKENS: tokens}, Rung(64, 9.0 - start, 256, 1.0))
        )
    chosen = found.best()
    assert chosen is not None
    work: Any = SimpleNamespace(plan=SimpleNamespace(specification=specification()))

    tuning = flow._tuning(JOB, work, KEY, found, chosen)

    assert tuning.settings == {"max_num_seqs": 32, **split}
    assert [row[-1] for row in trial_rows(tuning)] == ["chosen", ""]


def test_tokens_of_a_step_that_were_set_by_hand_are_kept_with_what_was_found():
    found = Search(starts=1)
    found.trials.append(Trial(0, {TOKENS: 4096}, Rung(64, 9.0, 256, 1.0)))
    chosen = found.best()
    assert chosen is not None
    work: Any = SimpleNamespace(plan=SimpleNamespace(specification=specification()))
    engine = JOB.engine.model_copy(update={TOKENS: 4096})
    by_hand = JOB.model_copy(update={"engine": engine})

    assert flow._tuning(by_hand, work, KEY, found, chosen).settings[TOKENS] == 4096
    assert TOKENS not in flow._tuning(JOB, work, KEY, found, chosen).settings


def test_limits_that_only_the_first_measurement_keeps_are_an_error_that_names_the_broken_one():
    found = Search()
    found.trials.append(Trial(0, {}, Rung(1, 9.0, 32, 1.0)))
    found.trials.append(Trial(0, {}, Rung(1, 9.0, 32, 1.0), "TTFT p99 2 s is above 1 s"))
    assert found.best() is None
    assert "with 1 in flight, TTFT p99 2 s is above 1 s" in str(flow._no_settings(found))
