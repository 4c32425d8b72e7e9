"""Track scorings in MLflow; doing it again updates what is there."""

import logging
from collections.abc import Mapping

from prefect import task
from prefect.cache_policies import NO_CACHE

from regrade.errors import TrackingError
from regrade.reporting.diffs import diff_line, diff_markdown
from regrade.scoring.diff import Diff
from regrade.scoring.score import Scored, latency_percentiles
from regrade.specification import model_family, training_step
from regrade.tracking import Scoring, TrackedRuns, track
from regrade.tracking.connection import public_uri
from regrade.tracking.process import BesideError, call_beside
from tasks.retries import may_pass

logger = logging.getLogger("regrade.track")


class ToTrack:
    """Scorings that belong to one model, and where to log them. Plain class: see `tasks.work.Work`."""

    def __init__(
        self,
        uri: str,
        scored: list[Scored],
        revision: str,
        seconds: dict[str, dict[str, float]],
        command: str,
        diffs: Mapping[tuple[str, str], Diff] | None = None,
    ) -> None:
        self.uri = uri
        self.scored = scored
        self.revision = revision
        """Commit that holds the scores."""
        self.seconds = seconds
        """Wall-clock seconds per stage, by answer set id."""
        self.command = command
        """Command that grades these answers again."""
        self.diffs = diffs or {}
        """By answer set id and label: how a new scoring differs from the one before."""
        self.urls: dict[str, str | None] = {}
        """Page of the model's evaluation by answer set id, once tracked."""


@task(
    name="track",
    task_run_name="track",
    cache_policy=NO_CACHE,
    retries=3,
    retry_delay_seconds=[2, 10, 30],
    retry_condition_fn=may_pass,
)
def track_scorings(work: ToTrack) -> dict[tuple[str, str], str]:
    """Log every scoring and return MLflow run ids by answer set id and scoring label."""
    latency: dict[str, dict[str, float]] = {}
    by_model: dict[str, list[Scoring]] = {}
    for one in work.scored:
        scoring = _scoring(one, work, latency)
        by_model.setdefault(scoring.model_id, []).append(scoring)
    run_ids: dict[tuple[str, str], str] = {}
    for scorings in by_model.values():
        name = scorings[0].manifest.specification.model.name
        runs = _track(
            work.uri,
            scorings,
            step=training_step(name),
            family=model_family(name),
            regrade_command=work.command,
        )
        for scoring, run_id in zip(scorings, runs.run_ids, strict=True):
            run_ids[scoring.manifest.answer_set_id, scoring.label] = run_id
            work.urls[scoring.manifest.answer_set_id] = runs.url
    return run_ids


def _track(
    uri: str, scorings: list[Scoring], *, step: int | None, family: str, regrade_command: str
) -> TrackedRuns:
    try:
        return call_beside(
            track, uri, scorings, step=step, family=family, regrade_command=regrade_command
        )
    except BesideError as error:
        raise TrackingError(public_uri(uri), str(error)) from error


def _scoring(one: Scored, work: ToTrack, latency: dict[str, dict[str, float]]) -> Scoring:
    manifest = one.answers.manifest
    answer_set_id = manifest.answer_set_id
    if answer_set_id not in latency:
        latency[answer_set_id] = latency_percentiles(one.answers.only(one.file.answers))
    diff = work.diffs.get((answer_set_id, one.file.label))
    return Scoring(
        manifest=manifest,
        revision=one.answers.revision,
        repository=one.answers.repository.uri,
        url=one.answers.repository.url(work.revision, one.answers.folder),
        scorer=one.file.scorer,
        version=one.file.version,
        source_hash=one.file.source_hash,
        summary=one.file.summary,
        seconds={**work.seconds.get(answer_set_id, {}), "score": one.file.score_seconds},
        latency=latency[answer_set_id],
        headline=one.file.scorer == manifest.scorers[0] and not one.file.left_out,
        suffix=one.file.suffix,
        intact_only=one.file.intact_only,
        change=diff_line(diff) if diff else None,
        diff=diff_markdown(diff) if diff else None,
    )
