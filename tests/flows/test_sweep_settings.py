"""`sweep-settings` with a test engine, and real flow, tasks, spool, repositories and MLflow."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from flows.sweep_settings import sweep_settings
from regrade.answers.local import LocalRepository
from regrade.engines.vllm import VllmEngine
from regrade.orchestration.artifacts import SWEEP_KEY
from regrade.records import Request
from regrade.settings.errors import EngineError
from regrade.tuning.sweep import measuring
from regrade.tuning.sweep.results import SweepResult
from tasks.sweep_page import NoPointError
from tests.command_line import DEMO
from tests.limited_engine import Engines, questions
from tests.prefect_fixtures import latest_page

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
ROWS = 12


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests, because creating its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture
def sweep(
    flows_on_server: str,
    spool_home: Path,
    tmp_path: Path,
    mlflow: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    monkeypatch.setattr(measuring, "STEADY_SECONDS", 0.0)
    data = questions(tmp_path, ROWS)

    def run(**parameters: Any) -> SweepResult:
        found = sweep_settings(
            model=str(DEMO / "regrade-demo"),
            datasets=({"name": "ones", "path": str(data), "scorer": "number"},),
            answers=str(tmp_path / "answers"),
            tracking_uri=mlflow,
            **parameters,
        )
        assert isinstance(found, SweepResult)
        return found

    return run


def test_requests_in_flight_vary_inside_one_start_and_no_point_finds_the_answers_of_another(
    sweep: Any, engines: Engines, tmp_path: Path, prefect_server: str
):
    engines.answer = lambda request, _, in_flight: (
        "#### 2" if in_flight == 4 and "3" in str(request.prompt) else "#### 1"
    )
    found = sweep(in_flight=(1, 4, 16))

    (engine,) = engines.opened
    assert engine.limits == [1, 4, 16]
    assert len(engine.asked) == 3 * ROWS
    assert found.engine_starts == 1
    first, second, third = (point.benchmarks[0] for point in found.points)
    assert (first.accuracy, second.accuracy, third.accuracy) == (1.0, 11 / 12, 1.0)
    assert first.test is None
    assert second.test is not None
    assert (second.test.worse, second.test.better, second.test.n) == (1, 0, ROWS)
    assert third.speed is not None
    assert third.speed.tpot is not None
    assert third.speed.tpot.p50 == 0.016
    assert third.seconds_per_answer == 0.5
    folder = Path(str(found.folder))
    assert folder.parent == tmp_path / "answers" / "sweeps"
    assert json.loads((folder / "sweep.json").read_text())["sweep_id"] == found.sweep_id
    assert "in flight" in (folder / "sweep.md").read_text()
    assert (folder / "throughput.png").read_bytes().startswith(b"\x89PNG")
    assert latest_page(prefect_server, SWEEP_KEY).startswith(f"# Sweep {found.sweep_id}")
    assert found.mlflow_run_id is not None
    assert (
        LocalRepository(tmp_path / "answers").head() is None
    )  # an answer repository can still begin there


def test_the_same_command_continues_and_then_needs_no_engine(sweep: Any, engines: Engines):
    engines.dies_at = 4
    stopped = sweep(in_flight=(1, 4, 16))
    assert [point.failure is None for point in stopped.points] == [True, False, True]
    assert stopped.engine_starts == 2  # the others go on with a new engine

    engines.dies_at = None
    continued = sweep(in_flight=(1, 4, 16))
    assert not continued.failed
    assert continued.engine_starts == 1
    assert len(engines.opened[-1].asked) == ROWS - 1  # one answer was kept
    assert continued.sweep_id == stopped.sweep_id
    assert continued.points[1].benchmarks[0].rows == ROWS

    assert continued.time_spent is not None
    again = sweep(in_flight=(1, 4, 16))
    assert (again.engine_starts, again.time_spent) == (0, None)
    assert [p.benchmarks[0].seconds for p in again.points] == [
        p.benchmarks[0].seconds for p in continued.points
    ]


def test_short_points_are_asked_again_only_to_measure(
    sweep: Any, engines: Engines, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measuring, "STEADY_SECONDS", 60.0)
    monkeypatch.setattr(measuring, "MOST", 3)
    found = sweep(in_flight=(1, 4))
    (engine,) = engines.opened
    assert len(engine.asked) == 2 * 3 * ROWS
    assert (
        engine.limits == [1] * 3 + [4] * 3
    )  # each time it forgets the prompts, which would be cheaper
    assert found.time_spent is not None
    assert found.time_spent.tokens == 4 * len(engine.asked)  # its seconds are those of all, too
    measured = [point.benchmarks[0] for point in found.points]
    assert [(m.rows, len(m.times)) for m in measured] == [(ROWS, 3)] * 2
    assert all(m.spread is not None for m in measured)

    again = sweep(in_flight=(1, 4))
    assert again.engine_starts == 0
    assert [p.benchmarks[0].times for p in again.points] == [m.times for m in measured]


def test_the_log_names_each_point_before_its_answers_and_with_each_line_about_them(
    sweep: Any, engines: Engines, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, logger="regrade")
    sweep(in_flight=(1, 4))
    sweep(in_flight=(1, 4))  # nothing to generate
    told = [r.getMessage() for r in caplog.records if r.name == "regrade.sweep"]
    assert [line.partition("(")[2] for line in told[:2]] == [
        f"in_flight={number}): measured now" for number in (1, 4)
    ]
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("regrade.")]
    about = [line for line in lines if " · " in line.partition(":")[0]]
    assert {
        kind for line in about for kind in ("answers in", "published", "complete") if kind in line
    } == {"answers in", "published", "complete"}
    assert all(" (in_flight=1): " in line or " (in_flight=4): " in line for line in about)
    assert any(" (in_flight=4): number" in line for line in about)  # its score


def test_a_point_that_fails_is_a_row_with_its_reason(sweep: Any, engines: Engines):
    engines.refused = lambda settings: settings.max_num_batched_tokens == 64
    found = sweep(
        axes=({"setting": "engine.max_num_batched_tokens", "values": ("512", "64", "128")},)
    )
    first, second, third = (point.failure for point in found.points)
    assert (first, third) == (None, None)
    assert str(second).startswith("The engine did not start")
    page = (Path(str(found.folder)) / "sweep.md").read_text()
    assert "out of memory" in page


def test_points_after_two_that_fail_alike_are_not_tried(sweep: Any, engines: Engines):
    def answer(_: Request, __: VllmEngine, in_flight: int | None) -> str:
        if in_flight != 1:
            raise EngineError("The engine ended: out of memory.")
        return "#### 1"

    engines.answer = answer
    found = sweep(in_flight=(1, 2, 3, 4))
    assert [point.failure for point in found.points] == [
        None,
        *["The engine ended: out of memory."] * 3,
    ]
    assert [engine.limits[-1] for engine in engines.opened] == [2, 3]


def test_a_sweep_without_any_result_is_an_error(sweep: Any, engines: Engines):
    engines.refused = lambda _: True
    with pytest.raises(NoPointError, match="in_flight=1: The engine did not start"):
        sweep(in_flight=(1, 4))
