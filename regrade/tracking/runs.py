"""Runs of MLflow: find, create, and log to them."""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from regrade.tracking.scoring import MAX_NAME, cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

NOTE, SHOWN = "mlflow.note.content", "mlflow.loggedArtifacts"
"""Tags of MLflow with a run's description, and with the tables that its page shows."""


def create_run(
    client: "MlflowClient",
    experiment: str,
    query: str,
    name: str,
    tags: Mapping[str, str],
    start_time: int,
) -> "Run":
    """Create a run that must exist once.

    Args:
        client: Client of MLflow.
        experiment: Id of the experiment.
        query: Search that finds the run, and no other.
        name: Name of the run.
        tags: Tags; those of `query` are among them.
        start_time: Begin of the work, in milliseconds since 1970.
    """
    source = {"mlflow.source.name": "regrade", "mlflow.source.type": "LOCAL"}
    created = client.create_run(
        experiment, start_time, tags=source | dict(tags), run_name=cut(name, MAX_NAME)
    )
    # If another process created the same run at the same time, both keep the older run.
    kept = oldest_run(client, experiment, query) or created
    if kept.info.run_id != created.info.run_id:
        client.delete_run(created.info.run_id)
    return kept


def oldest_run(client: "MlflowClient", experiment: str, query: str) -> "Run | None":
    """Return the oldest run that a search finds, or None."""
    oldest = ["attributes.start_time ASC"]
    runs = client.search_runs([experiment], query, max_results=1, order_by=oldest)
    return runs[0] if runs else None


def changed_values(current: Mapping[str, float], stored: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that are not stored with the same value, so that a metric has one point per result."""
    return {key: value for key, value in current.items() if stored.get(key) != value}


def gone_values(current: Mapping[str, float], stored: Mapping[str, float]) -> dict[str, float]:
    """Return NaN for each stored metric that has no value any more: a metric cannot be removed."""
    return {key: math.nan for key in stored.keys() - current if not math.isnan(stored[key])}


def log_values(
    client: "MlflowClient",
    run_id: str,
    metrics: Mapping[str, float],
    *,
    step: int,
    parameters: Mapping[str, str],
    tags: Mapping[str, str],
) -> None:
    """Log metrics at a step, parameters and tags in one request."""
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    client.log_batch(
        run_id,
        metrics=[Metric(key, value, now, step) for key, value in metrics.items()],
        params=[Param(key, value) for key, value in parameters.items()],
        tags=[RunTag(key, value) for key, value in tags.items()],
    )
