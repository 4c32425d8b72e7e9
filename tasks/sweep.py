"""Track a sweep in MLflow."""

import logging

from prefect import task

from regrade.settings.errors import TrackingError
from regrade.settings.files import path_of
from regrade.text.markdown import markdown
from regrade.tracking.connection import default_tracking_uri, public_uri
from regrade.tracking.process import call_in_process
from regrade.tracking.sweep import PointRun, TrackedSweep, track_sweep
from regrade.tuning.sweep.points import SweepJob
from regrade.tuning.sweep.results import Measured, PointResult, SweepResult
from regrade.tuning.sweep.text import blocks
from tasks.step import DELAYS, hidden, retried

logger = logging.getLogger("regrade.track")
_MAX_PAGE = 4000
"""Longest description of a run in MLflow, in characters."""


def track_points(sweep: SweepResult, job: SweepJob) -> SweepResult:
    """Return the sweep with its MLflow run; a failure is logged, because the result is complete without MLflow."""
    uri = job.tracking_uri or default_tracking_uri(job.answers)
    try:
        tracked = track_in_mlflow(uri, hidden(sweep), job.model, _place(job))
    except TrackingError as error:
        logger.warning("not tracked: %s. The same command tracks it when MLflow is back", error)
        return sweep
    return sweep.model_copy(
        update={
            "tracking_uri": public_uri(uri),
            "mlflow_run_id": tracked.run_id,
            "mlflow_url": tracked.url,
        }
    )


@task(name="track", task_run_name="track the sweep", **retried(*DELAYS))
def track_in_mlflow(uri: str, sweep: SweepResult, model: str, answers: str) -> TrackedSweep:
    """Track a sweep as a parent run with a child per point.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects a run.
    """
    name = f"sweep {sweep.sweep_id}: {model.rstrip('/').rpartition('/')[2]}"
    points = [_point(sweep, point) for point in sweep.points]
    page = markdown(blocks(sweep, {}), _MAX_PAGE)
    return call_in_process(track_sweep, uri, sweep.sweep_id, answers, name, points, page)


def _place(job: SweepJob) -> str:
    """Return the absolute path of the sweep's folder, or the address of the repository on the Hub."""
    if job.folder is None:
        return job.answers
    return str(path_of(job.folder).absolute())


def _point(sweep: SweepResult, point: PointResult) -> PointRun:
    several = len(sweep.benchmarks) > 1
    metrics: dict[str, float] = {}
    for measured in point.benchmarks:
        prefix = f"{measured.benchmark}/" if several else ""
        metrics |= {f"{prefix}{key}": value for key, value in _scalars(measured).items()}
    return PointRun(
        name=point.name,
        curve=point.curve,
        step=point.in_flight or 0,
        parameters={**point.settings, "answers": point.answers},
        metrics=metrics,
        failure=point.failure,
    )


def _scalars(measured: Measured) -> dict[str, float]:
    """Return every figure of a point: those of its stored answers, and in their place those that were measured."""
    values = measured.figures | {
        name: value for name, value in measured if isinstance(value, float)
    }
    if measured.test is not None:
        values |= {"difference": measured.test.difference, "p_value": measured.test.p_value}
    if measured.speed is not None:
        values |= measured.speed.scalars()
    return {name: float(value) for name, value in values.items() if value is not None}
