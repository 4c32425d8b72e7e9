"""Tags on runs that are there: the verdict of a gate, and aliases that move from run to run."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from regrade.tracking.connection import connect
from regrade.tracking.scoring import MAX_TAG, cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "regrade"
_PARENT = "mlflow.parentRunId"


def tag_answer_sets(
    uri: str,
    tags: Mapping[str, Mapping[str, str]],
    model_tags: Mapping[str, str],
    *,
    experiment: str = EXPERIMENT,
) -> int:
    """Tag the runs of the scorings of some answer sets, and the runs of their models.

    Args:
        uri: MLflow tracking URI.
        tags: Tags by answer set id.
        model_tags: Tags of the models' evaluations.
        experiment: Name of the experiment; where there is none, nothing is tagged.

    Returns:
        Number of scorings that were found.

    Raises:
        TrackingError: If MLflow cannot be reached or does not take the tags.
    """
    found = 0
    with connect(uri) as client:
        known = client.get_experiment_by_name(experiment)
        if known is None:
            return 0
        parents: set[str] = set()
        for answer_set_id, run_tags in tags.items():
            for run in _runs(client, known.experiment_id, "regrade.answer_set", answer_set_id):
                found += 1
                parents.add(run.data.tags.get(_PARENT, ""))
                _set(client, run, run_tags)
        for parent in sorted(parents - {""}):
            _set(client, client.get_run(parent), model_tags)
    return found


def move_alias_tag(
    uri: str, alias: str, answer_sets: Mapping[str, str], *, experiment: str = EXPERIMENT
) -> int:
    """Tag the runs of some answer sets with an alias, and take it from those of other sets of the same benchmarks.

    Args:
        uri: MLflow tracking URI.
        alias: Its name; the tag is `regrade.alias.<name>`.
        answer_sets: Answer set id by benchmark.
        experiment: Name of the experiment; where there is none, nothing is tagged.

    Returns:
        Number of runs that carry it now.

    Raises:
        TrackingError: If MLflow cannot be reached or does not take the tags.
    """
    tag = f"regrade.alias.{alias}"
    found = 0
    with connect(uri) as client:
        known = client.get_experiment_by_name(experiment)
        if known is None:
            return 0
        for run in [*_runs(client, known.experiment_id, tag, "true")]:
            benchmark = run.data.tags.get("regrade.benchmark", "")
            answer_set = run.data.tags.get("regrade.answer_set")
            if answer_sets.get(benchmark) not in (None, answer_set):
                client.delete_tag(run.info.run_id, tag)
        for answer_set_id in answer_sets.values():
            for run in _runs(client, known.experiment_id, "regrade.answer_set", answer_set_id):
                _set(client, run, {tag: "true"})
                found += 1
    return found


def _runs(client: "MlflowClient", experiment: str, tag: str, value: str) -> Iterator["Run"]:
    where = f"tags.`regrade.kind` = 'scoring' and tags.`{tag}` = '{value}'"
    token: str | None = None
    while True:
        page = client.search_runs([experiment], where, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _set(client: "MlflowClient", run: "Run", tags: Mapping[str, str]) -> None:
    for name, value in tags.items():
        if run.data.tags.get(name) != value:
            client.set_tag(run.info.run_id, name, cut(value, MAX_TAG))
