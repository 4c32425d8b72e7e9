"""Runs of MLflow: find, create, and log to them."""

import math
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from regrade.tracking.scoring import MAX_NAME, MAX_PARAMETER, MAX_TAG, cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

NOTE, SHOWN = "mlflow.note.content", "mlflow.loggedArtifacts"
"""Tags of MLflow with a run's description, and with the tables that its page shows."""


def found_or_created(
    client: "MlflowClient",
    experiment: str,
    query: str,
    name: str,
    tags: Mapping[str, str],
    start_time: int,
) -> "Run":
    """Return the oldest run that a search finds; a new one if there is none.

    Args:
        client: Client of MLflow.
        experiment: Id of the experiment.
        query: Search that finds the run, and no other.
        name: Name of a new run.
        tags: Tags of a new run; those of `query` are among them.
        start_time: Begin of the work, in milliseconds since 1970.
    """

    def oldest() -> "Run | None":
        runs = client.search_runs(
            [experiment], query, max_results=1, order_by=["attributes.start_time ASC"]
        )
        return runs[0] if runs else None

    if found := oldest():
        return found
    source = {"mlflow.source.name": "regrade", "mlflow.source.type": "LOCAL"}
    tags = source | {key: cut(value, MAX_TAG) for key, value in tags.items()}
    created = client.create_run(experiment, start_time, tags=tags, run_name=cut(name, MAX_NAME))
    # If another process created the same run at the same time, both keep the older run.
    kept = oldest() or created
    if kept.info.run_id != created.info.run_id:
        client.delete_run(created.info.run_id)
    return kept


def known_values(run: "Run") -> dict[str, float]:
    """Return the metrics of a run that have a value: one that is gone is NaN, since MLflow removes none."""
    return {key: value for key, value in run.data.metrics.items() if not math.isnan(value)}


def changed_values(current: Mapping[str, float], stored: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that are not stored with the same value, so that a metric has one point per result.

    Those that are stored and have no value any more are NaN.
    """
    changed = {key: value for key, value in current.items() if stored.get(key) != value}
    return changed | dict.fromkeys(stored.keys() - current, math.nan)


def new_points(
    client: "MlflowClient",
    run: "Run",
    metrics: Mapping[int, Mapping[str, float]],
    ours: Collection[str] = (),
) -> dict[int, dict[str, float]]:
    """Return the metrics by step whose newest point at the step has another value, or that have none there.

    Of the names before a `/` in `ours`, those with a point at the step and no value any more are NaN.
    """
    newest: dict[int, dict[str, float]] = {step: {} for step in metrics}
    for key in run.data.metrics:
        points = client.get_metric_history(run.info.run_id, key)
        for point in sorted(points, key=lambda point: point.timestamp):
            if point.step in metrics and (
                key in metrics[point.step] or key.partition("/")[0] in ours
            ):
                newest[point.step][key] = point.value
    return {
        step: changed_values(values, {k: v for k, v in newest[step].items() if not math.isnan(v)})
        for step, values in metrics.items()
    }


def changed_tags(run: "Run", tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags, cut to MLflow's limit, that a run does not have with the same value."""
    whole = {key: cut(value, MAX_TAG) for key, value in tags.items()}
    return {key: value for key, value in whole.items() if run.data.tags.get(key) != value}


def log_values(
    client: "MlflowClient",
    run: "Run",
    metrics: Mapping[int, Mapping[str, float]],
    *,
    parameters: Mapping[str, str],
    tags: Mapping[str, str],
) -> None:
    """Log new metrics by step, and the parameters and tags that a run lacks, in one request; texts are cut to MLflow's limits."""
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    client.log_batch(
        run.info.run_id,
        metrics=[
            Metric(key, value, now, step)
            for step, values in sorted(metrics.items())
            for key, value in values.items()
        ],
        params=[
            Param(key, cut(value, MAX_PARAMETER))
            for key, value in parameters.items()
            if key not in run.data.params
        ],
        tags=[RunTag(key, value) for key, value in changed_tags(run, tags).items()],
    )
