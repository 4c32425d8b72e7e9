"""Log scorings to MLflow: find or create their runs, and bring those up to date."""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from regrade.stats.charts import accuracy_chart
from regrade.tracking.connection import connect, experiment_id, run_url
from regrade.tracking.description import evaluation_text, scoring_text
from regrade.tracking.evaluation import headline_metrics, headlines, table_rows
from regrade.tracking.scoring import MAX_NAME, MAX_PARAMETER, MAX_TAG, Scoring, cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_TABLE, _CHART, _DIFF = "results.json", "accuracy.png", "diff.md"
_PARENT, _NOTE, _SHOWN = "mlflow.parentRunId", "mlflow.note.content", "mlflow.loggedArtifacts"


@dataclass(frozen=True, slots=True)
class TrackedRuns:
    """Where scorings of one model are in MLflow."""

    parent_run_id: str
    """Run of the model's evaluation, with `accuracy/<benchmark>`."""
    run_ids: tuple[str, ...]
    """Runs of the scorings, in their order."""
    experiment_id: str
    url: str | None
    """Link for people to the evaluation; None where no server is known that shows it."""


def track(
    uri: str,
    scorings: Sequence[Scoring],
    *,
    experiment: str = "regrade",
    step: int | None = None,
    family: str | None = None,
    regrade_command: str = "",
) -> TrackedRuns:
    """Log scorings of one model, each as a run beneath the run of the model's evaluation.

    A scoring that was logged before is brought up to date: what did not change is not logged again, so that the
    history of a metric has one point per result. How long things took is kept as first logged unless a result changed.

    Args:
        uri: MLflow tracking URI.
        scorings: At least one, all of the same model.
        experiment: Name of the experiment; created where there is none.
        step: Training step of the checkpoint. None: as logged before, else 0.
        family: Name that all checkpoints of one training share, by which the pages group their runs. None: as
            logged before, else the model's name.
        regrade_command: Shell command that grades the answers again, for the description.

    Raises:
        TrackingError: If MLflow cannot be reached or does not take what is logged. Calling again goes on from there.
        ValueError: If there is no scoring, or scorings of several models.
    """
    models = {scoring.model_id for scoring in scorings}
    if len(models) != 1:
        names = ", ".join(sorted({scoring.model_label for scoring in scorings})) or "none"
        raise ValueError(f"scorings of exactly one model can be tracked at once, got: {names}")
    with connect(uri) as client:
        experiment_key = experiment_id(client, uri, experiment)
        parent = _evaluation(client, experiment_key, scorings[0], family)
        parent_id = str(parent.info.run_id)
        family = (
            parent.data.params.get("model")
            or family
            or scorings[0].manifest.specification.model.name
        )
        runs = _scorings(client, experiment_key, parent_id)
        for scoring in scorings:
            if scoring.identity not in runs:
                runs[scoring.identity] = _create_scoring(client, experiment_key, parent_id, scoring)
            _bring_up_to_date(client, runs[scoring.identity], scoring, family)
        # One that was interrupted, maybe elsewhere, has no results to show yet.
        current = [
            run
            for run in _scorings(client, experiment_key, parent_id).values()
            if run.info.status == "FINISHED"
        ]
        _summarise(client, parent, scorings[0], current, step, family, regrade_command)
    return TrackedRuns(
        parent_id,
        tuple(str(runs[scoring.identity].info.run_id) for scoring in scorings),
        experiment_key,
        run_url(uri, experiment_key, parent_id),
    )


def _evaluation(
    client: "MlflowClient", experiment: str, scoring: Scoring, family: str | None
) -> "Run":
    where = f"tags.`regrade.kind` = 'evaluation' and tags.`regrade.model_id` = '{scoring.model_id}'"
    if found := _first(client, experiment, where):
        return found
    model = scoring.manifest.specification.model
    tags = {
        "regrade.kind": "evaluation",
        "regrade.model_id": scoring.model_id,
        "regrade.model": cut(scoring.model_label, MAX_TAG),
        "regrade.model_revision": model.revision,
    }
    name = model.name if not family or family == model.name else f"{family}/{model.name}"
    return _create(client, experiment, where, name, tags)


def _create_scoring(
    client: "MlflowClient", experiment: str, parent_id: str, scoring: Scoring
) -> "Run":
    benchmark = scoring.manifest.specification.benchmark
    name = f"{benchmark.name} {scoring.scorer} v{scoring.version}"
    if benchmark.limit is not None:
        name += f" ({benchmark.limit} questions)"
    if scoring.intact_only is not None:
        name += f" ({scoring.intact_only})"
    where = f"tags.`{_PARENT}` = '{parent_id}' and tags.`regrade.scoring` = '{scoring.identity}'"
    return _create(client, experiment, where, name, scoring.tags() | {_PARENT: parent_id})


def _create(
    client: "MlflowClient", experiment: str, where: str, name: str, tags: Mapping[str, str]
) -> "Run":
    source = {"mlflow.source.name": "regrade", "mlflow.source.type": "LOCAL"}
    created = client.create_run(experiment, tags=source | dict(tags), run_name=cut(name, MAX_NAME))
    # Another machine may have done the same at the same moment: both see the same first one, which stays.
    first = _first(client, experiment, where) or created
    if first.info.run_id != created.info.run_id:
        client.delete_run(created.info.run_id)
    return first


def _first(client: "MlflowClient", experiment: str, where: str) -> "Run | None":
    oldest = ["attributes.start_time ASC"]
    found = client.search_runs([experiment], where, max_results=1, order_by=oldest)
    return found[0] if found else None


def _scorings(client: "MlflowClient", experiment: str, parent_id: str) -> dict[str, "Run"]:
    where = f"tags.`{_PARENT}` = '{parent_id}' and tags.`regrade.kind` = 'scoring'"
    runs: dict[str, Run] = {}
    token: str | None = None
    while True:
        page = client.search_runs([experiment], where, page_token=token)
        runs |= {run.data.tags["regrade.scoring"]: run for run in page}
        token = page.token
        if not token:
            return runs


def _bring_up_to_date(client: "MlflowClient", run: "Run", scoring: Scoring, family: str) -> None:
    run_id = str(run.info.run_id)
    complete = run.info.status == "FINISHED"
    stored = run.data.metrics
    changed = _changed(scoring.results(), stored)
    timings = scoring.timings()
    metrics = changed | {
        key: value for key, value in timings.items() if changed or key not in stored
    }
    tags = scoring.tags() | {
        _NOTE: scoring_text(scoring, scoring.change or run.data.tags.get("regrade.change")),
        _SHOWN: json.dumps([{"path": _TABLE, "type": "table"}]),
    }
    tags = {key: value for key, value in tags.items() if run.data.tags.get(key) != value}
    if metrics or tags or not complete:
        tags["regrade.tracked_at"] = datetime.now(UTC).isoformat()
    parameters = scoring.parameters() | {"model": cut(family, MAX_PARAMETER)}
    missing = {key: value for key, value in parameters.items() if key not in run.data.params}
    _log(client, run_id, metrics, step=0, parameters=missing, tags=tags)
    if run.inputs is None or not run.inputs.dataset_inputs:
        _log_dataset(client, run_id, scoring)
    if changed or not complete:
        _log_artifacts(client, run_id, scoring)
    if scoring.diff is not None:
        client.log_text(run_id, scoring.diff, _DIFF)
    if not complete:
        client.set_terminated(run_id)


def _summarise(
    client: "MlflowClient",
    parent: "Run",
    scoring: Scoring,
    runs: Sequence["Run"],
    step: int | None,
    family: str,
    command: str,
) -> None:
    best = headlines(runs)
    before = parent.data.tags
    at = int(before.get("regrade.step", "0")) if step is None else step
    metrics = headline_metrics(best)
    if before.get("regrade.step") == str(at):
        metrics = _changed(metrics, parent.data.metrics)
    command = command or before.get("regrade.command", "")
    tags = {
        "regrade.step": str(at),
        "regrade.command": cut(command, 4000),
        _NOTE: evaluation_text(
            scoring.model_label, at, table_rows(runs, best), command, before.get(_NOTE, "")
        ),
    }
    tags = {key: value for key, value in tags.items() if before.get(key) != value}
    parameters = {} if "model" in parent.data.params else {"model": cut(family, MAX_PARAMETER)}
    _log(client, str(parent.info.run_id), metrics, step=at, parameters=parameters, tags=tags)
    if parent.info.status != "FINISHED":
        client.set_terminated(parent.info.run_id)


def _changed(wanted: Mapping[str, float], stored: Mapping[str, float]) -> dict[str, float]:
    return {key: value for key, value in wanted.items() if stored.get(key) != value}


def _log(
    client: "MlflowClient",
    run_id: str,
    metrics: Mapping[str, float],
    *,
    step: int,
    parameters: Mapping[str, str],
    tags: Mapping[str, str],
) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    client.log_batch(
        run_id,
        metrics=[Metric(key, value, now, step) for key, value in metrics.items()],
        params=[Param(key, value) for key, value in parameters.items()],
        tags=[RunTag(key, value) for key, value in tags.items()],
    )


def _log_dataset(client: "MlflowClient", run_id: str, scoring: Scoring) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    benchmark = scoring.manifest.specification.benchmark
    local = benchmark.source == "local"
    source = {
        "path": benchmark.source,
        "config_name": benchmark.config,
        "split": benchmark.split,
        "revision": benchmark.source_revision,
    }
    dataset = Dataset(
        name=benchmark.name if local else benchmark.source,
        digest=benchmark.source_revision[:36],  # MLflow's limit
        source_type="local" if local else "hugging_face",
        source=json.dumps(source),
    )
    context = InputTag("mlflow.data.context", "Eval")
    client.log_inputs(run_id, datasets=[DatasetInput(dataset, [context])])


def _log_artifacts(client: "MlflowClient", run_id: str, scoring: Scoring) -> None:
    with tempfile.TemporaryDirectory(prefix="regrade-") as folder:
        table = json.dumps(scoring.table(), ensure_ascii=False)
        (Path(folder) / _TABLE).write_text(table, encoding="utf-8")
        if scoring.summary.subsets or scoring.summary.categories:
            model = scoring.manifest.specification.model
            title = f"{scoring.manifest.specification.benchmark.name} · {model.name}"
            (Path(folder) / _CHART).write_bytes(accuracy_chart(scoring.summary, title))
        client.log_artifacts(run_id, folder)
