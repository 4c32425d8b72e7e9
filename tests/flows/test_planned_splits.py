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
from regrade.tuning.search.records import TrialRecord, Tuning, TuningKey
from regrade.tuning.search.rule import TOKENS, Search, Start
from regrade.tuning.search.text import trial_rows
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


def trial(
    in_flight: int, rate: float, *, start: int = 0, broken: str | None = None, **settings: int
) -> TrialRecord:
    return TrialRecord(
        start=start,
        settings=settings,
        in_flight=in_flight,
        rate=rate,
        requests=32,
        seconds=1.0,
        broken=broken,
    )


def tuning(*trials: TrialRecord, job: TuneJob = JOB) -> Tuning:
    """What is kept of some measurements."""
    no_start: Start = lambda *_: pytest.fail("nothing is started")  # noqa: E731
    work: Any = SimpleNamespace(plan=SimpleNamespace(specification=specification()))
    return flow._tuning(job, work, KEY, Search(no_start, starts=1, trials=list(trials)))


@pytest.mark.parametrize(("in_flight", "per_copy"), [(64, 16), (66, 17), (1, 1)])
def test_requests_in_flight_are_divided_between_the_copies_of_a_model(
    in_flight: int, per_copy: int
):
    split = {"tensor_parallel_size": 1, "data_parallel_size": 4, TOKENS: 4096}

    kept = tuning(trial(in_flight, 9.0, **split), trial(2 * in_flight, 4.0, **split))

    assert kept.settings["max_num_seqs"] == per_copy
    assert kept.in_flight == in_flight
    assert kept.measured_at <= datetime.now(UTC)
    assert [row[-1] for row in trial_rows(kept)] == ["chosen", ""]


def test_a_split_with_other_tokens_of_a_step_is_not_marked_as_chosen():
    split = {"tensor_parallel_size": 2, "data_parallel_size": 2}

    kept = tuning(
        trial(64, 9.0, **split, **{TOKENS: 4096}),
        trial(64, 8.0, start=1, **split, **{TOKENS: 8192}),
    )

    assert kept.settings == {"max_num_seqs": 32, **split}
    assert [row[-1] for row in trial_rows(kept)] == ["chosen", ""]


def test_tokens_of_a_step_that_were_set_by_hand_are_kept_with_what_was_found():
    measured = trial(64, 9.0, **{TOKENS: 4096})
    engine = JOB.engine.model_copy(update={TOKENS: 4096})
    by_hand = JOB.model_copy(update={"engine": engine})

    assert tuning(measured, job=by_hand).settings[TOKENS] == 4096
    assert TOKENS not in tuning(measured).settings


def test_limits_that_only_the_first_measurement_keeps_are_an_error_that_names_the_broken_one():
    with pytest.raises(SettingsError, match="with 1 in flight, TTFT p99 2 s is above 1 s"):
        tuning(trial(1, 9.0), trial(1, 9.0, broken="TTFT p99 2 s is above 1 s"))
