"""Score stored answers, publish the scores, track and report them (`score-answers`, `rescore-answers`, `evaluate-model`)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from time import monotonic

from prefect.runtime import flow_run

from regrade.answers.opening import open_repository
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.errors import DamagedAnswersError, RegradeError, RepositoryError
from regrade.job import ScoringJob
from regrade.orchestration import artifacts
from regrade.reporting.display import current_display
from regrade.reporting.results import (
    AnswerSetResult,
    Evaluation,
    NotScored,
    SomeNotScoredError,
    SomeUnfitError,
    score_result,
)
from regrade.scoring.score import Scored, label_now, stale_scorers
from regrade.tracking.connection import default_tracking_uri, public_uri
from tasks.publish import publish_scores
from tasks.score import ScoredSet, score_set
from tasks.track import Tracked, track_scorings
from tasks.work import Work, hidden

logger = logging.getLogger("regrade.score")


def run_name() -> str:
    """Return `score <filters>` for the running flow."""
    parameters = flow_run.parameters
    chosen = [parameters.get(name) for name in ("model", "benchmark", "answer_set", "scorer")]
    which = "stale scores" if parameters.get("stale") else "all answers"
    return "score " + (", ".join(str(name) for name in chosen if name) or which)


@dataclass
class Scorings:
    """Scorings of answer sets of one repository, as far as a flow went with them."""

    sets: list[ScoredSet]
    damaged: Sequence[DamagedAnswersError]
    """Answer sets that were chosen but cannot be read."""
    works: dict[str, Work]
    """Answers that this flow run generated, by answer set id."""
    revision: str
    """Commit of the answers, and of the scores once they are published."""
    tracking_uri: str | None = None
    tracked: Tracked = field(default_factory=Tracked)
    track_seconds: float = 0.0
    tracking_error: RegradeError | None = None

    @property
    def scored(self) -> list[Scored]:
        """All scorings."""
        return [one for answer_set in self.sets for one in answer_set.scored]

    def seconds(self, answers: AnswerSet) -> dict[str, float]:
        """Return seconds per stage: load and generate over all sessions, publish for this run only."""
        sessions = answers.manifest.sessions
        work = self.works.get(answers.manifest.answer_set_id)
        return {
            "load": sum(session.load_seconds for session in sessions),
            "generate": sum(session.generate_seconds for session in sessions),
            "publish": work.publish_seconds if work else 0.0,
        }

    def check_tracked(self) -> None:
        """Raise the error of tracking, if there was one."""
        if self.tracking_error is not None:
            raise self.tracking_error


def score_stored(job: ScoringJob) -> Evaluation:
    """Score the answer sets that match the filters, all at one commit.

    Raises:
        RepositoryError: If the repository does not exist, or no answer set matches.
        UnknownNameError: If the scorer does not exist.
        SettingsError: If the scorer does not fit.
        DamagedAnswersError: If answers are damaged. Of several that failed: `SomeNotScoredError`.
        TrackingError: After everything else is done and reported: scores are never lost to tracking.
    """
    repository = open_repository(job.answers, create=False)
    pinned = repository.resolve(job.revision) if job.revision else repository.head()
    if pinned is None:
        raise RepositoryError(
            repository.uri, "it holds no answers yet. Generate some with `regrade generate`."
        )
    found, damaged = readable_sets(
        repository,
        pinned,
        benchmark=job.benchmark,
        model=job.model,
        answer_set_id=job.answer_set,
    )
    sets = [answers for answers in found if _is_between(answers, job)]
    if not sets and not damaged:
        raise RepositoryError(
            repository.uri, "no answer set fits. `regrade list` shows what is there."
        )
    chosen = [(answers, _scorers(answers, job)) for answers in sets]
    if job.stale:
        chosen = [(answers, scorers) for answers, scorers in chosen if scorers]
    if not chosen:
        if sets:
            logger.info("nothing is stale in %s", repository.uri)
        if damaged:
            raise damaged[0]
        return Evaluation(answer_sets=(), repository=repository.uri)
    scorings = score(chosen, force=job.force, intact=job.intact, damaged=damaged)
    publish(scorings)
    track(scorings, job.tracking_uri)
    evaluation = report(scorings)
    scorings.check_tracked()
    return evaluation


def _is_between(answers: AnswerSet, job: ScoringJob) -> bool:
    begun = answers.manifest.created_at.astimezone(UTC).date()
    grown = answers.manifest.updated_at.astimezone(UTC).date()
    return (job.since is None or grown >= job.since) and (job.until is None or begun <= job.until)


def _scorers(answers: AnswerSet, job: ScoringJob) -> tuple[str, ...]:
    if job.stale:
        return tuple(name for name in stale_scorers(answers) if job.scorer in (None, name))
    return (job.scorer,) if job.scorer else answers.manifest.scorers


def score(
    chosen: Sequence[tuple[AnswerSet, tuple[str, ...]]],
    *,
    force: bool = False,
    intact: bool = False,
    damaged: Sequence[DamagedAnswersError] = (),
    works: Sequence[Work] = (),
) -> Scorings:
    """Score answer sets of one repository.

    Args:
        chosen: Answer sets, each at its pinned revision, with the names of its scorers.
        force: Score again what the same version of a scorer has scored before.
        intact: Leave damaged shards out, and say so in every number.
        damaged: Answer sets that were chosen but cannot be read.
        works: Answer sets that this flow run generated.

    Raises:
        SettingsError: If there is one scoring to make, and its scorer does not exist or does not fit.
        DamagedAnswersError: The same, if its answers are damaged.
    """
    for name in dict.fromkeys(name for _, names in chosen for name in names):
        label_now(name)  # imported and hashed here, once, and not in several threads
    futures = [
        score_set.submit(hidden(answers), names, force=force, intact=intact)
        for answers, names in chosen
    ]
    sets = [future.result() for future in futures]
    errors = [*damaged, *(error for one in sets for error in one.errors.values())]
    if len(errors) == 1 and not any(one.scored for one in sets):
        raise errors[0]
    by_id = {work.plan.specification.answer_set_id: work for work in works}
    return Scorings(sets, damaged, by_id, chosen[0][0].revision)


def publish(scorings: Scorings) -> None:
    """Publish all new scores in one commit."""
    repository = scorings.sets[0].answers.repository
    scorings.revision = publish_scores(repository, hidden(scorings.scored)) or scorings.revision


def track(scorings: Scorings, tracking_uri: str | None) -> None:
    """Track scorings in MLflow; an error is kept for `Scorings.check_tracked`, as the report comes first.

    Args:
        scorings: Already published.
        tracking_uri: MLflow server or database. None: the default beside the repository.
    """
    uri = tracking_uri or default_tracking_uri(scorings.sets[0].answers.repository.uri)
    seconds = {one.answer_set_id: scorings.seconds(one.answers) for one in scorings.sets}
    started = monotonic()
    try:
        scorings.tracked = track_scorings(
            uri, hidden(scorings.sets), scorings.revision, hidden(seconds)
        )
        scorings.tracking_uri = public_uri(uri)
    except RegradeError as error:
        logging.getLogger("regrade.track").warning("not tracked: %s", error)
        scorings.tracking_error = error
    scorings.track_seconds = monotonic() - started


def report(scorings: Scorings) -> Evaluation:
    """Show the result everywhere, and return it.

    Raises:
        SomeUnfitError: After that, if a scorer did not fit an answer set.
        SomeNotScoredError: After that, if answers are damaged.
    """
    evaluation = Evaluation(
        answer_sets=tuple(_result(one, scorings) for one in scorings.sets if one.scored),
        not_scored=(
            *(
                NotScored(answer_set=error.path, reason=error.problem, damaged=True)
                for error in scorings.damaged
            ),
            *(_not_scored(one, name) for one in scorings.sets for name in one.errors),
        ),
        repository=scorings.sets[0].answers.repository.uri,
        tracking_uri=scorings.tracking_uri,
    )
    current_display().finished(evaluation)
    artifacts.report(evaluation)
    artifacts.report_diffs([diff for one in scorings.sets for diff in one.diffs.values()])
    if evaluation.not_scored and scorings.tracking_error is None:
        is_damaged = any(one.damaged for one in evaluation.not_scored)
        raise (SomeNotScoredError if is_damaged else SomeUnfitError)(evaluation)
    return evaluation


def _not_scored(one: ScoredSet, scorer: str) -> NotScored:
    return NotScored(
        answer_set=one.answer_set_id,
        title=one.title,
        scorer=scorer,
        reason=str(one.errors[scorer]),
        damaged=isinstance(one.errors[scorer], DamagedAnswersError),
    )


def _result(one: ScoredSet, scorings: Scorings) -> AnswerSetResult:
    manifest, answer_set_id = one.answers.manifest, one.answer_set_id
    scores = tuple(
        score_result(scored, scorings.tracked.run_ids.get((answer_set_id, scored.file.label)))
        for scored in one.scored
    )
    seconds = scorings.seconds(one.answers)
    tokens = sum(session.completion_tokens for session in manifest.sessions)
    work = scorings.works.get(answer_set_id)
    return AnswerSetResult(
        benchmark=manifest.specification.benchmark.name,
        model=manifest.specification.model.name,
        answer_set_id=answer_set_id,
        revision=scorings.revision,
        url=one.answers.repository.url(scorings.revision, one.answers.folder),
        rows=manifest.rows,
        expected_rows=manifest.n_samples * manifest.specification.repeats,
        generated=work.session.rows if work and work.session else 0,
        scores=scores,
        mlflow_run_id=next((score.mlflow_run_id for score in scores if score.headline), None),
        mlflow_url=scorings.tracked.urls.get(answer_set_id),
        seconds={
            **seconds,
            "track": scorings.track_seconds,
            "score": sum(scored.file.score_seconds for scored in one.scored),
        },
        tokens_per_second=tokens / seconds["generate"] if seconds["generate"] else None,
    )
