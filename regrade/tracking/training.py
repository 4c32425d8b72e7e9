"""The run of a training: the accuracy of its checkpoints as metrics with steps, which MLflow draws as lines."""

import hashlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from regrade.tracking.evaluation import headline_metrics
from regrade.tracking.runs import NOTE, create_run, log_values, oldest_run
from regrade.tracking.scoring import MAX_PARAMETER, cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

logger = logging.getLogger("regrade.track")
_NOTE = (
    "Accuracies of the checkpoints of a training, at their steps. The evaluation of each checkpoint is a run of its "
    "own, with the same parameter `model`."
)
"""Description of the run."""


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
    training_id = hashlib.sha256(family.encode()).hexdigest()[:16]
    query = f"tags.`regrade.kind` = 'training' and tags.`regrade.training` = '{training_id}'"
    run = oldest_run(client, experiment, query) or create_run(
        client,
        experiment,
        query,
        f"{family} (all checkpoints)",
        {"regrade.kind": "training", "regrade.training": training_id, NOTE: _NOTE},
        min(run.info.start_time for run in best.values()),
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
    log_values(
        client,
        run_id,
        _new_points(client, run_id, headline_metrics(best), step),
        step=step,
        parameters={} if "model" in run.data.params else {"model": cut(family, MAX_PARAMETER)},
        tags={} if checkpoint in run.data.tags else {checkpoint: model_id},
    )
    ended = max(run.info.end_time for run in best.values())
    if run.info.status != "FINISHED" or (run.info.end_time or 0) < ended:
        client.set_terminated(run_id, end_time=ended)


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
