"""A sweep in MLflow: a run with curves over the requests in flight, a child per point, the same runs when logged again."""

from pathlib import Path
from typing import Any

import pytest

from regrade.tracking.sweep import EXPERIMENT, PointRun, track_sweep

pytestmark = pytest.mark.usefixtures("mlflow_database")

SWEEP = "0123456789ab"


def point(tokens: int, in_flight: int, rate: float, failure: str | None = None) -> PointRun:
    curve = f"max_num_batched_tokens={tokens}"
    settings = {"engine.max_num_batched_tokens": str(tokens), "in_flight": str(in_flight)}
    metrics = {} if failure else {"tokens_per_second": rate}
    return PointRun(f"{curve}, in_flight={in_flight}", curve, in_flight, settings, metrics, failure)


def runs(uri: str) -> tuple[Any, list[Any]]:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    return client, client.search_runs([experiment.experiment_id])


@pytest.mark.timeout(200)
def test_the_parent_has_a_curve_per_setting_and_the_same_sweep_is_updated(tmp_path: Path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    points = [
        point(512, 1, 10),
        point(512, 4, 30),
        point(1024, 1, 11),
        point(1024, 4, 0, "it's full"),
    ]
    first = track_sweep(uri, SWEEP, "/answers", "sweep of model", points, "# Page")
    points[-1] = point(1024, 4, 33)
    again = track_sweep(uri, SWEEP, "/answers", "sweep of model", points, "# Page 2")

    assert first.run_id == again.run_id
    client, found = runs(uri)
    assert len(found) == 5
    assert {run.info.status for run in found} == {"FINISHED"}
    parent = client.get_run(first.run_id)
    assert parent.data.tags["mlflow.note.content"] == "# Page 2"
    curves = {
        key: [(m.step, m.value) for m in client.get_metric_history(first.run_id, key)]
        for key in parent.data.metrics
    }
    assert curves == {
        "tokens_per_second/max_num_batched_tokens-512": [(1, 10.0), (4, 30.0)],
        "tokens_per_second/max_num_batched_tokens-1024": [(1, 11.0), (4, 33.0)],
    }
    children = {run.info.run_name: run for run in found if run.info.run_id != first.run_id}
    last = children["max_num_batched_tokens=1024, in_flight=4"]
    assert last.data.tags["mlflow.parentRunId"] == first.run_id
    assert last.data.tags["regrade.failure"] == ""
    assert last.data.params["in_flight"] == "4"

    elsewhere = track_sweep(uri, SWEEP, "/other", "sweep of model", points[:2], "# Page")
    assert elsewhere.run_id != first.run_id
    assert len(client.get_metric_history(first.run_id, next(iter(curves)))) == 2
    assert len(runs(uri)[1]) == 8


@pytest.mark.timeout(200)
def test_texts_that_a_search_of_mlflow_cannot_quote_are_runs_of_their_own(tmp_path: Path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    points = [
        PointRun(name, "", 0, {}, {"tokens_per_second": 1.0}, None)
        for name in ("prompt=it's", "prompt=it_s", 'prompt="it`s"')
    ]
    answers = ["/home/o'brien/answers", "/home/o_brien/answers"]

    for _ in range(2):
        ids = {
            track_sweep(uri, SWEEP, place, "sweep", points, "# Page").run_id for place in answers
        }
        assert len(ids) == 2

    assert len(runs(uri)[1]) == 2 * (1 + len(points))


def test_curves_whose_names_mlflow_would_write_alike_stay_apart(tmp_path: Path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    points = [
        PointRun(name, name, 1, {}, {"tokens_per_second": value}, None)
        for name, value in (
            ("a=1", 1.0),
            ("a:1", 2.0),
            (300 * "m" + "1", 3.0),
            (300 * "m" + "2", 4.0),
        )
    ]
    tracked = track_sweep(uri, SWEEP, "/answers", "sweep", points, "# Page")

    client, _ = runs(uri)
    found = client.get_run(tracked.run_id).data.metrics
    assert sorted(found.values()) == [1.0, 2.0, 3.0, 4.0]
