"""From published answers to scores, metrics and reports: shared by the flows that score."""

import logging
from collections.abc import Mapping, Sequence
from time import monotonic

from regrade.answers.sets import AnswerSet
from regrade.errors import DamagedAnswersError, RegradeError
from regrade.orchestration.artifacts import report, report_diffs
from regrade.reporting.display import current_display
from regrade.reporting.results import (
    AnswerSetResult,
    Evaluation,
    NotScored,
    SomeNotScoredError,
    SomeUnfitError,
    score_result,
)
from regrade.scoring.score import Scored
from regrade.tracking.connection import default_tracking_uri, public_uri
from tasks.publish import ScoringBatch, publish_all_scores
from tasks.score import ToScore, score
from tasks.track import ToTrack, track_scorings

logger = logging.getLogger("regrade.track")


def grade(
    sets: Sequence[AnswerSet],
    *,
    scorers: tuple[str, ...] | None,
    force: bool,
    tracking_uri: str | None,
    generated: Mapping[str, AnswerSetResult],
    stale: Mapping[str, tuple[str, ...]] | None = None,
    intact: bool = False,
    damaged: Sequence[DamagedAnswersError] = (),
) -> Evaluation:
    """Score answer sets, publish the scores in one commit, track and report them.

    Args:
        sets: Answer sets of one repository, each at its pinned revision.
        scorers: Names of scorers. None: each benchmark's own.
        force: Score again what this very scorer has scored before.
        tracking_uri: Where MLflow keeps its runs. None: the default beside the repository.
        generated: What this flow run generated, by answer set id.
        stale: Names of scorers by answer set id, instead of `scorers`.
        intact: Leave damaged shards out, and say so in every number.
        damaged: Answer sets that were asked for and cannot even be read.

    Raises:
        SettingsError: After everything else is done and reported, if a scorer does not fit a set.
        DamagedAnswersError: The same, if answers are damaged. Of several that failed: `SomeNotScoredError`.
        TrackingError: After everything else is done and reported: scores are never lost to tracking.
    """
    repository = sets[0].repository
    names = {
        one.manifest.answer_set_id: (stale or {}).get(one.manifest.answer_set_id)
        or scorers
        or one.manifest.scorers
        for one in sets
    }
    waiting = [
        score.submit(ToScore(one, names[one.manifest.answer_set_id], force=force, intact=intact))
        for one in sets
    ]
    works = [future.result() for future in waiting]
    scored = [one for work in works for one in work.scored]
    errors = [*damaged, *(error for work in works for error in work.errors)]
    if errors and not scored and len(errors) == 1:
        raise errors[0]
    revision = publish_all_scores(ScoringBatch(repository, scored)) or sets[0].revision
    uri = tracking_uri or default_tracking_uri(repository.uri)
    seconds = {one.manifest.answer_set_id: seconds_of(one, generated) for one in sets}
    diffs = {(diff.answer_set_id, k): diff for work in works for k, diff in work.diffs.items()}
    command = f"regrade score --answers {repository.uri}"
    tracking = ToTrack(uri, scored, revision, seconds, command, diffs)
    failure: RegradeError | None = None
    run_ids: dict[tuple[str, str], str] = {}
    started = monotonic()
    try:
        run_ids = track_scorings(tracking)
    except RegradeError as error:
        logger.warning("not tracked: %s", error)
        failure = error
    for stages in seconds.values():
        stages["track"] = monotonic() - started
    evaluation = Evaluation(
        answer_sets=tuple(
            _result(work.answers, scored, revision, run_ids, tracking.urls, generated, seconds)
            for work in works
            if work.scored
        ),
        not_scored=(
            *(_unreadable(error) for error in damaged),
            *(one for work in works for one in work.not_scored),
        ),
        repository=repository.uri,
        tracking_uri=None if failure else public_uri(uri),
    )
    current_display().finished(evaluation)
    report(evaluation)
    report_diffs(list(diffs.values()))
    if evaluation.not_scored:
        is_damaged = any(one.damaged for one in evaluation.not_scored)
        failure = failure or (SomeNotScoredError if is_damaged else SomeUnfitError)(evaluation)
    if failure is not None:
        raise failure
    return evaluation


def _unreadable(error: DamagedAnswersError) -> NotScored:
    return NotScored(answer_set=error.path, reason=error.problem, damaged=True)


def seconds_of(answers: AnswerSet, generated: Mapping[str, AnswerSetResult]) -> dict[str, float]:
    """Return the seconds of each stage: over all sessions of the answer set, publishing of this run."""
    sessions = answers.manifest.sessions
    now = generated.get(answers.manifest.answer_set_id)
    return {
        "load": sum(session.load_seconds for session in sessions),
        "generate": sum(session.generate_seconds for session in sessions),
        "publish": now.seconds["publish"] if now else 0.0,
    }


def _result(
    answers: AnswerSet,
    scored: Sequence[Scored],
    revision: str,
    run_ids: Mapping[tuple[str, str], str],
    urls: Mapping[str, str | None],
    generated: Mapping[str, AnswerSetResult],
    seconds: Mapping[str, Mapping[str, float]],
) -> AnswerSetResult:
    manifest = answers.manifest
    own = [one for one in scored if one.answers.manifest.answer_set_id == manifest.answer_set_id]
    scores = tuple(
        score_result(one, run_ids.get((manifest.answer_set_id, one.file.label))) for one in own
    )
    generate_seconds = sum(session.generate_seconds for session in manifest.sessions)
    tokens = sum(session.completion_tokens for session in manifest.sessions)
    now = generated.get(manifest.answer_set_id)
    return AnswerSetResult(
        benchmark=manifest.specification.benchmark.name,
        model=manifest.specification.model.name,
        answer_set_id=manifest.answer_set_id,
        revision=revision,
        url=answers.repository.url(revision, answers.folder),
        rows=manifest.rows,
        expected_rows=manifest.n_samples * manifest.specification.repeats,
        generated=now.generated if now else 0,
        scores=scores,
        mlflow_run_id=next((one.mlflow_run_id for one in scores if one.headline), None),
        mlflow_url=urls.get(manifest.answer_set_id),
        seconds={
            **seconds[manifest.answer_set_id],
            "score": sum(one.file.score_seconds for one in own),
        },
        tokens_per_second=tokens / generate_seconds if generate_seconds else None,
    )
