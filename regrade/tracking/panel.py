"""Log several judges of the same answers to MLflow: a run below the evaluation of the judged model; logged again, it is updated."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regrade.tracking.connection import PARENT_TAG, connect
from regrade.tracking.runs import NOTE, SHOWN, changed_values, create_run, log_values, oldest_run
from regrade.tracking.scoring import MAX_TAG, cut, metric_names

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
    tags = {name: cut(value, MAX_TAG) for name, value in tags.items()}
    with connect(uri) as client:
        parent = client.get_run(panel.parent_run_id).info
        query = (
            f"tags.`{PARENT_TAG}` = '{parent.run_id}' and tags.`regrade.panel` = '{panel.identity}'"
        )
        run = oldest_run(client, parent.experiment_id, query)
        if run is None:
            run = create_run(
                client, parent.experiment_id, query, panel.name, tags, parent.start_time
            )
        run_id = str(run.info.run_id)
        # A metric cannot be removed: a figure that there is no longer, such as a majority with too many draws, becomes NaN.
        gone = {name: math.nan for name, old in run.data.metrics.items() if not math.isnan(old)}
        changed = changed_values(gone | metrics, run.data.metrics)
        fresh = {name: value for name, value in tags.items() if run.data.tags.get(name) != value}
        log_values(client, run_id, changed, step=0, parameters={}, tags=fresh)
        if changed or fresh or run.info.status != "FINISHED":
            for path, table in files.items():
                client.log_text(run_id, json.dumps(table, ensure_ascii=False), path)
            client.set_terminated(run_id, end_time=parent.end_time or parent.start_time)
    return run_id
