"""A saved view of the experiment's list of runs: evaluations with the accuracy of each benchmark as columns.

MLflow's pages read it from a tag of the experiment, `mlflow.sharedViewState.<key>`, if the address names the key.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from regrade.tracking.connection import connect, experiment_id, page_url
from regrade.tracking.labels import EXPERIMENT
from regrade.tracking.runs import NOTE
from regrade.tracking.scoring import MAX_TAG

if TYPE_CHECKING:
    from mlflow import MlflowClient

KEY = "regrade"
TAG = f"mlflow.sharedViewState.{KEY}"
ATTRIBUTES = ("Created", "Duration")


def save_view(client: "MlflowClient", experiment: str, benchmarks: Iterable[str]) -> None:
    """Add columns for the accuracies of benchmarks to the saved view; its other columns are kept.

    The experiment gets a description with a link to the view, unless it has one: MLflow shows it on all pages of the
    experiment, also on those for agents, with which it may begin.

    Args:
        client: Client of MLflow.
        experiment: Id of the experiment.
        benchmarks: Names of the benchmarks.
    """
    tags = client.get_experiment(experiment).tags
    if NOTE not in tags:
        link = f"[All evaluations with their accuracies]({_page(experiment)})"
        client.set_experiment_tag(experiment, NOTE, link)
    known = _columns(tags.get(TAG))
    columns = [f"attributes.`{name}`" for name in ATTRIBUTES] if not known else []
    wanted = [f"metrics.`accuracy/{name}`" for name in sorted(benchmarks)]
    columns = list(dict.fromkeys([*known, *columns, *wanted]))
    view = json.dumps({"selectedColumns": columns, "orderByKey": "attributes.start_time"})
    if columns != known and len(view) <= MAX_TAG:
        client.set_experiment_tag(experiment, TAG, view)


def prepared_list(uri: str, server: str = "") -> str | None:
    """Return the address of the list of runs at a server, after creating experiment and view if they do not exist.

    Args:
        uri: Tracking URI: the server, or its database.
        server: Address of the server, if `uri` is its database.

    Raises:
        TrackingError: If the server cannot be reached.
    """
    with connect(uri) as client:
        key = experiment_id(client, uri, EXPERIMENT)
        save_view(client, key, ())
    return list_url(server or uri, key)


def list_url(uri: str, experiment: str) -> str | None:
    """Return the address of the list of runs in the saved view; None if `uri` is not a server."""
    return page_url(uri, _page(experiment))


def _page(experiment: str) -> str:
    return f"#/experiments/{experiment}/runs?viewStateShareKey={KEY}&workflowType=machine_learning"


def _columns(stored: str | None) -> list[str]:
    """Return the columns of a stored view; empty if regrade did not write it."""
    try:
        view = json.loads(stored or "{}")
    except (ValueError, RecursionError):
        return []
    columns = view.get("selectedColumns") if isinstance(view, dict) else None
    return [str(name) for name in columns] if isinstance(columns, list) else []
