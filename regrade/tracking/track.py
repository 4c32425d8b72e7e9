"""Log scorings to MLflow: find or create their runs, and update them."""

import hashlib
import json
import logging
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from regrade.records.specification import model_family, training_step
from regrade.stats.charts import DRAWING_ERRORS, accuracy_chart
from regrade.tracking.connection import PARENT_TAG, connect, experiment_id, run_url, scoring_runs
from regrade.tracking.description import (
    Row,
    evaluation_text,
    scoring_text,
    verdict_in,
    with_verdict,
)
from regrade.tracking.evaluation import (
    HEADLINE,
    headline_metrics,
    headlines,
    model_parameters,
    settings_tags,
    table_rows,
)
from regrade.tracking.labels import EXPERIMENT
from regrade.tracking.run_list import save_view
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
from regrade.tracking.scoring import MAX_NAME, Scoring, adapter_tags, cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

logger = logging.getLogger("regrade.track")
_TABLE, _CHART, _DIFF = "results.json", "accuracy.png", "diff.md"
_EXAMPLES = "wrong_answers.json"

# The run of a training: the accuracy of its checkpoints as metrics with steps, which MLflow draws as lines.

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
    run = found_or_created(
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
        run,
        new_points(client, run, {step: headline_metrics(best)}, ours=HEADLINE),
        parameters={"model": family},
        tags={checkpoint: model_id},
    )
    ended = max(run.info.end_time for run in best.values())
    if run.info.status != "FINISHED" or (run.info.end_time or 0) < ended:
        client.set_terminated(run_id, end_time=ended)


@dataclass(frozen=True, slots=True)
class TrackedRuns:
    """MLflow runs of the scorings of a model."""

    parent_run_id: str
    """Parent run: the model's evaluation, with `accuracy/<benchmark>`."""
    run_ids: tuple[str, ...]
    """Runs of the scorings, in the order given."""
    experiment_id: str
    url: str | None
    """Link to the page of the evaluation; None if the tracking URI is not a server."""


def track(uri: str, scorings: Sequence[Scoring]) -> TrackedRuns:
    """Log scorings of a model, each as a child of the run of the model's evaluation.

    A scoring logged before is updated: unchanged values are not logged again, so that the history of a metric has one
    point per result.

    Args:
        uri: MLflow tracking URI.
        scorings: At least one, all of the same model and repository.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects the data. A further call completes the runs.
        ValueError: If there is no scoring, or scorings of several models.
    """
    models = {scoring.model_id for scoring in scorings}
    if len(models) != 1:
        names = ", ".join(sorted({scoring.model_label for scoring in scorings})) or "none"
        raise ValueError(f"expected scorings of exactly one model, got: {names}")
    name = scorings[0].model.name
    step = training_step(name) or 0
    with connect(uri) as client:
        experiment_key = experiment_id(client, uri, EXPERIMENT)
        parent = _evaluation(client, experiment_key, scorings[0])
        parent_id = str(parent.info.run_id)
        # The pages group the runs of a training by it.
        family = parent.data.params.get("model") or model_family(name)
        runs = _runs_of(client, experiment_key, parent_id)
        for scoring in scorings:
            if scoring.identity not in runs:
                runs[scoring.identity] = _create_scoring(client, experiment_key, parent_id, scoring)
            _update_scoring(client, runs[scoring.identity], scoring, family)
        # Runs of an interrupted `track`, maybe of another process, have no results yet.
        current = [
            run
            for run in _runs_of(client, experiment_key, parent_id).values()
            if run.info.status == "FINISHED"
        ]
        best = headlines(current)
        save_view(client, experiment_key, best)
        table = table_rows(current, best)
        _summarise(client, parent, scorings[0], best, table, step, family)
        if step and best and family != name:
            draw_training(client, experiment_key, family, scorings[0].model_id, best, step)
    return TrackedRuns(
        parent_id,
        tuple(str(runs[scoring.identity].info.run_id) for scoring in scorings),
        experiment_key,
        run_url(uri, experiment_key, parent_id),
    )


def _evaluation(client: "MlflowClient", experiment: str, scoring: Scoring) -> "Run":
    query = f"tags.`regrade.kind` = 'evaluation' and tags.`regrade.model_id` = '{scoring.model_id}'"
    model = scoring.model
    tags = {
        "regrade.kind": "evaluation",
        "regrade.model_id": scoring.model_id,
        "regrade.model": scoring.model_label,
        "regrade.model_revision": model.revision,
        **adapter_tags(model),
    }
    # Folders of several models may have one name.
    name = f"{model.name}@{model.revision[:8]}" if model.kind == "local" else model.name
    return found_or_created(client, experiment, query, name, tags, scoring.start_time)


def _create_scoring(
    client: "MlflowClient", experiment: str, parent_id: str, scoring: Scoring
) -> "Run":
    benchmark = scoring.manifest.specification.benchmark
    name = f"{benchmark.name} {scoring.file.scorer} v{scoring.file.version}"
    if benchmark.limit is not None:
        name += f" ({benchmark.limit} questions)"
    if scoring.file.intact_only is not None:
        name += f" ({scoring.file.intact_only})"
    query = f"tags.`{PARENT_TAG}` = '{parent_id}' and tags.`regrade.scoring` = '{scoring.identity}'"
    tags = scoring.tags() | {PARENT_TAG: parent_id}
    return found_or_created(client, experiment, query, name, tags, scoring.start_time)


def _runs_of(client: "MlflowClient", experiment: str, parent_id: str) -> dict[str, "Run"]:
    runs = scoring_runs(client, experiment, PARENT_TAG, parent_id)
    return {run.data.tags["regrade.scoring"]: run for run in runs}


def _update_scoring(client: "MlflowClient", run: "Run", scoring: Scoring, family: str) -> None:
    started = time.monotonic()
    run_id = str(run.info.run_id)
    complete = run.info.status == "FINISHED"
    stored = known_values(run)
    if complete and scoring.figures.get("seconds/generate") == stored.get("seconds/generate"):
        # The same answers: to score them again publishes none. Others would have other seconds.
        scoring = replace(scoring, publish_seconds=stored.get("seconds/publish", 0.0))
    metrics = scoring.results() | scoring.timings()
    ours = {key: stored[key] for key in stored if key in metrics or scoring.owns(key)}
    changed = changed_values(metrics, ours)
    tags = scoring.tags() | {
        NOTE: scoring_text(scoring, scoring.change or run.data.tags.get("regrade.change")),
        SHOWN: json.dumps([{"path": path, "type": "table"} for path in _tables(scoring)]),
    }
    if changed or changed_tags(run, tags) or not complete:
        tags["regrade.tracked_at"] = datetime.now(UTC).isoformat()
    log_values(
        client, run, {0: changed}, parameters=scoring.parameters() | {"model": family}, tags=tags
    )
    _log_datasets(client, run, scoring)
    if changed or not complete:
        _log_artifacts(client, run_id, scoring)
    if scoring.diff is not None:
        client.log_text(run_id, scoring.diff, _DIFF)
    if changed or not complete:
        seconds = time.monotonic() - started
        client.log_metric(run_id, "seconds/track", seconds)
        client.set_terminated(run_id, end_time=run.info.start_time + scoring.duration(seconds))


def _tables(scoring: Scoring) -> list[str]:
    return [_TABLE, _EXAMPLES] if scoring.examples else [_TABLE]


def _summarise(
    client: "MlflowClient",
    parent: "Run",
    scoring: Scoring,
    best: Mapping[str, "Run"],
    table: Sequence[Row],
    step: int,
    family: str,
) -> None:
    before = parent.data.tags
    metrics = headline_metrics(best)
    shown = known_values(parent).items()  # people may add metrics of their own
    stored = {key: value for key, value in shown if key.partition("/")[0] in HEADLINE}
    changed = changed_values(metrics, stored)
    command = f"regrade score --answers {shlex.quote(scoring.repository)}"
    earlier = before.get(NOTE, "")
    note = evaluation_text(scoring.model_label, step, table, command, earlier)
    if not changed and (verdict := verdict_in(earlier)):
        note = with_verdict(note, verdict)  # it was about these numbers
    if before.get("regrade.step") != str(step):
        changed |= metrics
    tags = {"regrade.step": str(step), "regrade.command": cut(command, 4000), NOTE: note}
    parameters = model_parameters(scoring) | {"model": family}
    log_values(
        client, parent, {step: changed}, parameters=parameters, tags=tags | settings_tags(best)
    )
    worked = sum(run.info.end_time - run.info.start_time for run in best.values())
    client.set_terminated(parent.info.run_id, end_time=parent.info.start_time + worked)


def _log_datasets(client: "MlflowClient", run: "Run", scoring: Scoring) -> None:
    """Log two datasets, unless the run has them: the answers with their number, and the questions.

    MLflow tells datasets apart by name and digest alone. The digest of answers is that of their set and its scored shards,
    not the commit: other sets are at the same commit, and the same answers are at later ones.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    content = "\n".join((scoring.manifest.answer_set_id, *scoring.file.answers))
    answers = Dataset(
        name=cut(scoring.repository.removeprefix("hf://datasets/"), MAX_NAME),
        digest=hashlib.sha256(content.encode()).hexdigest()[:36],  # MLflow's limit
        source_type="hugging_face" if scoring.repository.startswith("hf://") else "local",
        source=json.dumps(
            {
                "path": scoring.repository.removeprefix("hf://datasets/"),
                "revision": scoring.revision,
                "answer_set": scoring.manifest.answer_set_id,
            }
        ),
        profile=json.dumps({"num_rows": scoring.manifest.rows}),
    )
    known = run.inputs.dataset_inputs if run.inputs else ()
    if any((d.dataset.name, d.dataset.digest) == (answers.name, answers.digest) for d in known):
        return
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
        profile=json.dumps({"num_rows": scoring.manifest.n_samples}),
    )
    inputs = [
        DatasetInput(answers, [InputTag("mlflow.data.context", "answers")]),
        DatasetInput(dataset, [InputTag("mlflow.data.context", "questions")]),
    ]
    client.log_inputs(run.info.run_id, datasets=inputs)


def _log_artifacts(client: "MlflowClient", run_id: str, scoring: Scoring) -> None:
    with tempfile.TemporaryDirectory(prefix="regrade-") as folder:
        table = json.dumps(scoring.table(), ensure_ascii=False)
        (Path(folder) / _TABLE).write_text(table, encoding="utf-8")
        if scoring.examples:
            examples = json.dumps(scoring.examples_table(), ensure_ascii=False)
            (Path(folder) / _EXAMPLES).write_text(examples, encoding="utf-8")
        if scoring.file.summary.subsets or scoring.file.summary.categories:
            model = scoring.manifest.specification.model
            title = f"{scoring.manifest.specification.benchmark.name} · {model.name}"
            try:
                chart = accuracy_chart(scoring.file.summary, scoring.file.scale, title)
                (Path(folder) / _CHART).write_bytes(chart)
            except DRAWING_ERRORS as error:
                logger.warning("%s: no chart: %s", title, error)
        client.log_artifacts(run_id, folder)
