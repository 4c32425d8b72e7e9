"""Track scorings in MLflow; tracking them again updates the same runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from regrade.answers.figures import metrics_of
from regrade.scoring.score import latency_percentiles
from regrade.scoring.wrong import wrong_examples
from regrade.tracking import Scoring, track
from regrade.tracking.process import call_in_process
from tasks.score import Graded, ScoredSet
from tasks.step import DELAYS, step


@dataclass
class Tracked:
    """MLflow runs of scorings."""

    run_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    """By answer set id and label of the scoring."""
    urls: dict[str, str | None] = field(default_factory=dict)
    """MLflow pages, by answer set id."""
    parents: dict[str, str] = field(default_factory=dict)
    """MLflow runs of the models' evaluations, by answer set id."""


@step("track", delays=DELAYS)
def track_scorings(
    uri: str,
    sets: Sequence[ScoredSet],
    revision: str,
    published: Mapping[str, float],
    costs: Mapping[str, float | None],
) -> Tracked:
    """Track every scoring as an MLflow run.

    Args:
        uri: MLflow server or database.
        sets: Answer sets of one repository.
        revision: Commit that holds the scores.
        published: Wall-clock seconds of publishing the answers that this run generated, by answer set id.
        costs: Price of all tokens, by answer set id; None: not known.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects a run.
    """
    by_model: dict[str, list[Scoring]] = {}
    for answer_set in sets:
        if not answer_set.scored:
            continue
        scored_shards = answer_set.scored[0].file.answers
        latency = latency_percentiles(answer_set.answers.only(scored_shards))
        for scored in answer_set.scored:
            scoring = replace(
                _scoring(scored, revision, latency),
                publish_seconds=published.get(answer_set.answer_set_id, 0.0),
                cost=costs[answer_set.answer_set_id],
            )
            by_model.setdefault(scoring.model_id, []).append(scoring)
    tracked = Tracked()
    for scorings in by_model.values():
        runs = call_in_process(track, uri, scorings)
        for scoring, run_id in zip(scorings, runs.run_ids, strict=True):
            tracked.run_ids[scoring.manifest.answer_set_id, scoring.file.label] = run_id
            tracked.urls[scoring.manifest.answer_set_id] = runs.url
            tracked.parents[scoring.manifest.answer_set_id] = runs.parent_run_id
    return tracked


def _scoring(scored: Graded, revision: str, latency: dict[str, float]) -> Scoring:
    answers, file, change = scored.answers, scored.file, scored.change
    judged = (scored.calibrated, scored.bias)
    return Scoring(
        manifest=answers.manifest,
        file=file,
        revision=answers.revision,
        repository=answers.repository.uri,
        url=answers.repository.url(revision, answers.folder),
        latency=latency,
        figures=metrics_of(answers.manifest, file),
        calibration=None if scored.calibrated is None else scored.calibrated.text,
        judged={name: value for found in judged if found for name, value in found.figures.items()},
        change=change.line if change else None,
        diff=change.page if change else None,
        examples=wrong_examples(answers, file, scored.table),
    )
