"""Log a sweep to MLflow: a parent run, with a child run for each point. Logging it again updates the same runs.

The step of every metric is the number of requests in flight, so that MLflow's own charts draw curves: the parent run has a
metric per combination of the other settings, such as `tokens_per_second/sums/max_num_batched_tokens=16384`.
"""

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regrade.tracking.connection import PARENT_TAG, connect, experiment_id, run_url
from regrade.tracking.runs import (
    NOTE,
    SHOWN,
    changed_tags,
    changed_values,
    found_or_created,
    known_values,
    log_values,
    new_points,
)
from regrade.tracking.scoring import MAX_KEY, metric_names

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "regrade-sweeps"


@dataclass(frozen=True, slots=True)
class PointRun:
    """A point of a sweep, as MLflow gets it."""

    name: str
    curve: str
    """Settings other than the requests in flight; points with equal settings form a curve. "" if there are none."""
    step: int
    """Requests in flight; 0 if the sweep does not vary them."""
    parameters: Mapping[str, str]
    metrics: Mapping[str, float]
    failure: str | None


@dataclass(frozen=True, slots=True)
class TrackedSweep:
    """MLflow's runs of a sweep."""

    run_id: str
    url: str | None
    """Page of the parent run; None if the tracking URI is not a server."""


def track_sweep(
    uri: str, sweep_id: str, answers: str, name: str, points: Sequence[PointRun], page: str
) -> TrackedSweep:
    """Log a sweep, or update the runs that it has.

    Args:
        uri: MLflow tracking URI.
        sweep_id: Id of the sweep.
        answers: Address of its answers. The same command with other answers, such as on another machine, has other runs.
        name: Name of the parent run.
        points: The points.
        page: Markdown for the description of the parent run.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects the data. A further call completes the runs.
    """
    with connect(uri) as client:
        experiment = experiment_id(client, uri, EXPERIMENT)
        tags = {"regrade.kind": "sweep", "regrade.sweep": sweep_id, "regrade.repository": answers}
        parent = _run(client, experiment, name, tags)
        parent_id = str(parent.info.run_id)
        curves: dict[int, dict[str, float]] = {}
        keys = metric_names((_of_curve(k, point) for point in points for k in point.metrics), _key)
        for point in points:
            tags = {
                "regrade.kind": "sweep point",
                "regrade.sweep": sweep_id,
                "regrade.point": point.name,
                PARENT_TAG: parent_id,
            }
            child = _run(client, experiment, point.name, tags)
            own = metric_names(point.metrics, _key)
            values = {own[key]: value for key, value in point.metrics.items()}
            has_failed = point.failure is not None or "regrade.failure" in child.data.tags
            failure = {"regrade.failure": point.failure or ""} if has_failed else {}
            _update(client, child, {point.step: values}, point.parameters, failure)
            curves.setdefault(point.step, {}).update(
                (keys[_of_curve(key, point)], value) for key, value in point.metrics.items()
            )
        _update(client, parent, curves, {}, {NOTE: page})
        return TrackedSweep(parent_id, run_url(uri, experiment, parent_id))


def _run(client: "MlflowClient", experiment: str, name: str, tags: Mapping[str, str]) -> "Run":
    """Return the run with these tags, created if there is none.

    It is found by a hash of the tags, because a search of MLflow cannot quote every text, such as a path with an
    apostrophe.
    """
    key = hashlib.sha256(repr(sorted(tags.items())).encode()).hexdigest()[:32]
    query, now = f"tags.`regrade.key` = '{key}'", int(time.time() * 1000)
    return found_or_created(client, experiment, query, name, {"regrade.key": key, **tags}, now)


def _update(
    client: "MlflowClient",
    run: "Run",
    metrics: Mapping[int, Mapping[str, float]],
    parameters: Mapping[str, str],
    tags: Mapping[str, str],
) -> None:
    """Log the values that differ from the run's; an unchanged metric gets no second point."""
    log_values(client, run, new_points(client, run, metrics), parameters=parameters, tags=tags)
    if run.info.status != "FINISHED":
        client.set_terminated(run.info.run_id)


def _of_curve(metric: str, point: PointRun) -> str:
    return f"{metric}/{point.curve}" if point.curve else metric


def _key(name: str) -> str:
    """Return a name with the characters that MLflow allows in a metric."""
    return re.sub(r"[^\w./ -]", "-", name)[:MAX_KEY]


# Log several judges of the same answers to MLflow: a run below the evaluation of the judged model; logged again, it
# is updated.

Table = Mapping[str, Sequence[object]]
"""Columns and data in the JSON format of MLflow's tables."""


@dataclass(frozen=True, slots=True)
class PanelRun:
    """Several judges of the same answers, as MLflow gets them."""

    identity: str
    """Key that finds the run again."""
    name: str
    parent_run_id: str
    """Evaluation of the judged model."""
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    agreement: Mapping[tuple[str, str], float]
    """Share of equal verdicts of two judges."""
    tables: Mapping[str, Table]
    """Tables by name."""
    note: str
    """Description of the run, in markdown."""


def track_panel(uri: str, panel: PanelRun) -> str:
    """Log a panel and return the id of its run.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects the data.
    """
    names = {pair: " and ".join(pair) for pair in panel.agreement}
    keys = metric_names(names.values())
    metrics = dict(panel.metrics)
    metrics |= {f"agreement/{keys[names[pair]]}": v for pair, v in panel.agreement.items()}
    files = {f"{name}.json": table for name, table in panel.tables.items()}
    tags = {
        **panel.tags,
        "regrade.kind": "panel",
        "regrade.panel": panel.identity,
        PARENT_TAG: panel.parent_run_id,
        NOTE: panel.note,
        SHOWN: json.dumps([{"path": path, "type": "table"} for path in files]),
    }
    with connect(uri) as client:
        parent = client.get_run(panel.parent_run_id).info
        query = (
            f"tags.`{PARENT_TAG}` = '{parent.run_id}' and tags.`regrade.panel` = '{panel.identity}'"
        )
        run = found_or_created(
            client, parent.experiment_id, query, panel.name, tags, parent.start_time
        )
        run_id = str(run.info.run_id)
        changed = changed_values(metrics, known_values(run))
        log_values(client, run, {0: changed}, parameters={}, tags=tags)
        if changed or changed_tags(run, tags) or run.info.status != "FINISHED":
            for path, table in files.items():
                client.log_text(run_id, json.dumps(table, ensure_ascii=False), path)
            client.set_terminated(run_id, end_time=parent.end_time or parent.start_time)
    return run_id
