"""`tune-settings` and `--engine.tuned` with a test engine whose speed is known, and real flow, spool and repository."""

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from flows.generate_answers import generate_answers
from flows.tune_settings import tune_settings
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.jobs.job import make_job
from regrade.orchestration.artifacts import TUNING_KEY
from regrade.settings.errors import SettingsError
from regrade.tuning.search.job import TuneJob, begin_tuning
from regrade.tuning.search.result import TuneResult
from tasks.plan import plan_answers
from tests.command_line import DEMO
from tests.limited_engine import Engines, questions
from tests.prefect_fixtures import latest_page

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
ROWS = 1000
SECONDS = {1: 0.012, 2: 0.01, 4: 0.008, 8: 0.006, 16: 0.0015, 32: 0.0045, 64: 0.006}
"""Seconds of an answer by requests in flight: 16 are fastest."""


@pytest.fixture
def parameters(spool_home: Path, tmp_path: Path) -> dict[str, Any]:
    data = questions(tmp_path, ROWS)
    return {
        "model": str(DEMO / "regrade-demo"),
        "datasets": ({"name": "ones", "path": str(data), "scorer": "number"},),
        "answers": str(tmp_path / "answers"),
    }


@pytest.fixture
def tune(flows_on_server: str, parameters: dict[str, Any], engines: Engines) -> Any:
    def answer(request: object, settings: object, in_flight: int | None) -> str:
        time.sleep(SECONDS.get(in_flight or 0, 0.002))
        return "#### 1"

    engines.answer = answer

    def run(**changes: Any) -> TuneResult:
        return tune_settings(**(parameters | changes))

    return run


def test_the_fastest_settings_are_found_kept_and_used_and_their_answers_are_those_of_the_evaluation(
    tune: Any,
    engines: Engines,
    parameters: dict[str, Any],
    prefect_server: str,
    caplog: pytest.LogCaptureFixture,
):
    result = tune(starts=1, engine={"max_num_seqs": 64})

    (engine,) = engines.opened
    assert result.tuning.settings == {"max_num_seqs": 16}
    assert engine.settings.max_num_seqs == 64
    assert {8, 16, 32, 64} == set(engine.limits)
    repository = LocalRepository(Path(parameters["answers"]))
    assert result.path in repository.files(str(repository.head()))
    (stored,) = list_sets(repository, str(repository.head()))
    assert stored.manifest.rows == result.answers_made == result.rows
    assert 0 < result.answers_made < ROWS
    assert result.time_spent.parts.keys() > {"loading"}
    assert result.time_spent.tokens > 0
    assert "Where the time went" in latest_page(prefect_server, TUNING_KEY)
    assert "Chosen: max_num_seqs=16" in latest_page(prefect_server, TUNING_KEY).replace("\\", "")
    limits = [session.in_flight for session in stored.manifest.sessions]
    assert limits[:2] == [8, 16]

    caplog.set_level(logging.INFO, logger="regrade")
    generate_answers(**parameters, engine={"tuned": True})
    assert engines.opened[-1].settings.max_num_seqs == 16
    assert "tuned: max_num_seqs=16, as measured on" in caplog.text
    (stored,) = list_sets(repository, str(repository.head()))
    assert (stored.manifest.rows, stored.manifest.state) == (ROWS, "complete")


def test_tuned_settings_that_were_never_measured_are_a_warning_that_names_the_command(
    engines: Engines,
    parameters: dict[str, Any],
    flows_on_server: str,
    caplog: pytest.LogCaptureFixture,
):
    generate_answers(**parameters, engine={"tuned": True})
    assert engines.opened[0].settings.max_num_seqs is None
    (record,) = [r for r in caplog.records if r.name == "regrade.tune"]
    assert record.levelname == "WARNING"
    assert "`regrade tune` with the same options measures" in record.getMessage()


def test_limits_on_latency_bound_the_requests_in_flight(tune: Any):
    """The test engine's TTFT is 1 ms for each request in flight."""
    result = tune(starts=1, limits={"ttft_p99": 0.0055})
    assert result.tuning.settings["max_num_seqs"] <= 5
    assert {t.in_flight for t in result.tuning.trials if t.broken} >= {8}


def test_one_benchmark_at_a_time_is_tuned(tune: Any, parameters: dict[str, Any]):
    with pytest.raises(SettingsError, match="one kind of workload"):
        tune(benchmarks=("gsm8k",))


def test_the_flow_takes_what_the_command_planned(parameters: dict[str, Any]):
    job = make_job(TuneJob, parameters)
    (plan,) = begin_tuning(job) or ()
    (work,) = plan_answers.fn(job)
    assert work.plan.samples is plan.samples
