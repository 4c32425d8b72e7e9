"""The run of a training: the accuracy of its checkpoints as metrics with steps, which MLflow draws as lines."""

import hashlib
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from regrade.tracking.evaluation import headline_metrics
from regrade.tracking.scoring import MAX_NAME, MAX_PARAMETER, cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

logger = logging.getLogger("regrade.track")
_NOTE = "mlflow.note.content"


def draw_training(
    client: "MlflowClient",
    experiment: str,
    family: str,
    model_id: str,
    best: Mapping[str, "Run"],
    step: int,
) -> None:
    """Add the accuracies of a checkpoint to the run of its training, which is created if there is none.

    Args:
        client: Client of MLflow.
        experiment: Id of the experiment.
        family: Name that all checkpoints of the training share.
        model_id: Id of the checkpoint's model.
        best: Run with the headline accuracy of each benchmark; at least one.
        step: Training step of the checkpoint, above 0.
    """
    from mlflow.entities import Metric, Param, RunTag

    training_id = hashlib.sha256(family.encode()).hexdigest()[:16]
    run = _training(client, experiment, training_id) or _create(
        client, experiment, family, training_id, min(run.info.start_time for run in best.values())
    )
    run_id = str(run.info.run_id)
    checkpoint = f"regrade.checkpoint.{step}"
    if run.data.tags.get(checkpoint, model_id) != model_id:
        logger.warning(
            "the run '%s' in MLflow has another model at step %d: this one is not added to its lines",
            family,
            step,
        )
        return
    now = int(time.time() * 1000)
    metrics = _new_points(client, run_id, headline_metrics(best), step)
    client.log_batch(
        run_id,
        metrics=[Metric(key, value, now, step) for key, value in metrics.items()],
        params=[] if "model" in run.data.params else [Param("model", cut(family, MAX_PARAMETER))],
        tags=[] if checkpoint in run.data.tags else [RunTag(checkpoint, model_id)],
    )
    ended = max(run.info.end_time for run in best.values())
    if run.info.status != "FINISHED" or (run.info.end_time or 0) < ended:
        client.set_terminated(run_id, end_time=ended)


def _training(client: "MlflowClient", experiment: str, training_id: str) -> "Run | None":
    query = f"tags.`regrade.kind` = 'training' and tags.`regrade.training` = '{training_id}'"
    oldest = ["attributes.start_time ASC"]
    runs = client.search_runs([experiment], query, max_results=1, order_by=oldest)
    return runs[0] if runs else None


def _create(
    client: "MlflowClient", experiment: str, family: str, training_id: str, start_time: int
) -> "Run":
    tags = {
        "mlflow.source.name": "regrade",
        "mlflow.source.type": "LOCAL",
        "regrade.kind": "training",
        "regrade.training": training_id,
        _NOTE: "Accuracies of the checkpoints of a training, at their steps. The evaluation of each checkpoint is a run of its "
        "own, with the same parameter `model`.",
    }
    name = cut(f"{family} (all checkpoints)", MAX_NAME)
    created = client.create_run(experiment, start_time, tags=tags, run_name=name)
    # If another process created the same run at the same time, both keep the older run.
    first = _training(client, experiment, training_id) or created
    if first.info.run_id != created.info.run_id:
        client.delete_run(created.info.run_id)
    return first


def _new_points(
    client: "MlflowClient", run_id: str, metrics: Mapping[str, float], step: int
) -> dict[str, float]:
    """Return the metrics whose newest point at a step has another value, or that have none there."""
    new = {}
    for key, value in metrics.items():
        points = [point for point in client.get_metric_history(run_id, key) if point.step == step]
        newest = max(points, key=lambda point: point.timestamp, default=None)
        if newest is None or newest.value != value:
            new[key] = value
    return new
