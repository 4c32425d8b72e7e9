"""Tag existing runs with the verdict of a gate, and with aliases."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from regrade.text.markdown import escape
from regrade.tracking.connection import PARENT_TAG, connect, scoring_runs
from regrade.tracking.description import MAX_VERDICT, with_verdict
from regrade.tracking.runs import NOTE, log_values
from regrade.tracking.scoring import cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "regrade"


def tag_answer_sets(
    uri: str,
    tags: Mapping[tuple[str, str], Mapping[str, str]],
    model_tags: Mapping[str, str],
    verdict: str,
) -> int:
    """Tag the runs of one scoring of each answer set, and the runs of their models.

    Args:
        uri: MLflow tracking URI.
        tags: Tags by answer set id and scorer of the scoring: its name, or name, version and source hash (`number v2 45558e14`).
        model_tags: Tags for the parent runs, one for each model.
        verdict: First line of the descriptions of the models' runs.

    Returns:
        Number of tagged scorings; 0 if the experiment `regrade` does not exist.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects the tags.
    """
    count = 0
    with connect(uri) as client:
        experiment = client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return 0
        parents: set[str] = set()
        for (answer_set_id, scorer), run_tags in tags.items():
            for run in scoring_runs(
                client, experiment.experiment_id, "regrade.answer_set", answer_set_id
            ):
                if not _is_by(run, scorer):
                    continue
                count += 1
                parents.add(run.data.tags.get(PARENT_TAG, ""))
                _set(client, run, run_tags)
        for parent in sorted(parents - {""}):
            run = client.get_run(parent)
            note = with_verdict(run.data.tags.get(NOTE, ""), escape(cut(verdict, MAX_VERDICT)))
            _set(client, run, {**model_tags, NOTE: note})
    return count


def move_alias_tag(uri: str, alias: str, answer_sets: Mapping[str, str]) -> int:
    """Tag the runs of answer sets with an alias, and remove the tag from other runs of the same benchmarks.

    Args:
        uri: MLflow tracking URI.
        alias: Name of the alias; the tag is `regrade.alias.<name>`.
        answer_sets: Answer set id by benchmark.

    Returns:
        Number of runs with the tag; 0 if the experiment `regrade` does not exist.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects the tags.
    """
    tag = f"regrade.alias.{alias}"
    count = 0
    with connect(uri) as client:
        experiment = client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return 0
        for run in scoring_runs(client, experiment.experiment_id, tag, "true"):
            benchmark = run.data.tags.get("regrade.benchmark", "")
            answer_set = run.data.tags.get("regrade.answer_set")
            if answer_sets.get(benchmark) not in (None, answer_set):
                client.delete_tag(run.info.run_id, tag)
        for answer_set_id in answer_sets.values():
            for run in scoring_runs(
                client, experiment.experiment_id, "regrade.answer_set", answer_set_id
            ):
                _set(client, run, {tag: "true"})
                count += 1
    return count


def _is_by(run: "Run", scorer: str) -> bool:
    tags = run.data.tags
    name = tags["regrade.scorer"]
    version = f"{name} v{tags['regrade.scorer_version']}"
    return scorer in (name, version, f"{version} {tags['regrade.scorer_hash']}") or (
        scorer.startswith(f"{name} (")  # the scores of another tool
    )


def _set(client: "MlflowClient", run: "Run", tags: Mapping[str, str]) -> None:
    log_values(client, run, {}, parameters={}, tags=tags)
