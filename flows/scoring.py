"""Score answer sets, publish the scores, track and show them (`score-answers`, `rescore-answers`, `judge-answers`, `evaluate-model`).

Imports no Prefect: `regrade score` runs this without a flow run if there is no Prefect server.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from regrade.answers.figures import figures_of
from regrade.answers.sets import AnswerSet
from regrade.jobs.generate import Progress
from regrade.jobs.job import ScoringJob
from regrade.jobs.stored_sets import choose_sets
from regrade.jobs.time_spent import TimeSpent
from regrade.judging.panel_result import PanelResult
from regrade.records.rubrics.facts import answers_per_question, judge_run
from regrade.results.display import current_clock, current_display
from regrade.results.results import (
    AnswerSetResult,
    EarlyEnd,
    Evaluation,
    NotScored,
    SomeNotScoredError,
    SomeUnfitError,
    score_result,
)
from regrade.scorers import JUDGE, stored_name
from regrade.scoring.score import label_now, stale_scorers
from regrade.settings import ScoringOptions
from regrade.settings.errors import DamagedAnswersError, RegradeError
from regrade.tracking.connection import default_tracking_uri, public_uri
from tasks.panel import combine_judges, track_panels
from tasks.score import (
    Graded,
    ScoredSet,
    compare_set,
    publish_scores,
    score_set,
    score_when_published,
)
from tasks.step import error_of, hidden, in_flow_run
from tasks.track import Tracked, track_scorings
from tasks.work import Work

logger = logging.getLogger("regrade.score")


@dataclass
class Scorings:
    """Scorings of one repository's answer sets; the flow fills in the steps as it completes them."""

    sets: list[ScoredSet]
    damaged: Sequence[DamagedAnswersError]
    """Chosen answer sets that cannot be read."""
    works: dict[str, Work]
    """Answer sets that this flow run generated, by answer set id."""
    revision: str
    """Commit of the answers, and of the scores once they are published; "" if the answer sets have their own."""
    tracking_uri: str | None = None
    tracked: Tracked = field(default_factory=Tracked)
    report_urls: dict[str, str] = field(default_factory=dict)
    """Pages of reports in MLflow, by answer set id."""
    panels: list[PanelResult] = field(default_factory=list)
    """Several judges of the same answers, combined."""
    track_seconds: float = 0.0
    tracking_error: RegradeError | None = None

    @property
    def uri(self) -> str:
        """Answer repository."""
        return self.sets[0].answers.repository.uri

    @property
    def scored(self) -> list[Graded]:
        """All scorings."""
        return [scored for answer_set in self.sets for scored in answer_set.scored]

    def cost(self, answers: AnswerSet) -> float | None:
        """Price of an answer set's tokens over all sessions; None if no price is given."""
        work = self.works.get(answers.manifest.answer_set_id)
        if work is None or work.price is None:
            return None
        totals = answers.manifest.totals
        return work.price.cost(totals.prompt_tokens, totals.completion_tokens)

    def check_tracked(self) -> None:
        """Raise the error of tracking, if tracking failed."""
        if self.tracking_error is not None:
            raise self.tracking_error


def own_scorers(answers: AnswerSet) -> tuple[str, ...]:
    """Return the scorers of an answer set, without the judge unless the answers are its verdicts."""
    scorers = answers.manifest.scorers
    if judge_run(answers.manifest.specification) is not None:
        return scorers
    return tuple(name for name in scorers if name != JUDGE)


def score(
    chosen: Sequence[tuple[AnswerSet, tuple[str, ...]]],
    *,
    force: bool = False,
    intact: bool = False,
    damaged: Sequence[DamagedAnswersError] = (),
    works: Sequence[Work] = (),
    options: ScoringOptions,
) -> Scorings:
    """Score answer sets of one repository.

    Args:
        chosen: Answer sets, each at its pinned revision, with the names of its scorers.
        force: Score again even if the same version of a scorer has scored the answers.
        intact: Skip damaged shards, and mark every result.
        damaged: Chosen answer sets that cannot be read.
        works: Answer sets that this flow run generated.
        options: How scorers run that need processes or a sandbox.

    Raises:
        SettingsError: If there is only one scoring, and its scorer does not exist or does not fit.
        DamagedAnswersError: If there is only one scoring, and its answers are damaged.
    """
    _prepare(name for _, names in chosen for name in names)
    by_id = {work.plan.specification.answer_set_id: work for work in works}
    points = {name: work.point for name, work in by_id.items()}
    begun = {name: work.scoring for name, work in by_id.items() if work.scoring is not None}
    early = {name: found for name, started in begun.items() if (found := started.result())}
    futures = [
        early.get(answers.manifest.answer_set_id)
        or score_set.start(
            hidden(answers),
            names,
            force=force,
            intact=intact,
            options=options,
            point=points.get(answers.manifest.answer_set_id, ""),
        )
        for answers, names in chosen
    ]
    sets = [found if isinstance(found, ScoredSet) else found.result() for found in futures]
    errors = [*damaged, *(error for scored_set in sets for error in scored_set.errors.values())]
    if len(errors) == 1 and not any(scored_set.scored for scored_set in sets):
        raise errors[0]
    return Scorings(sets, damaged, by_id, chosen[0][0].revision)


def score_early(work: Work, names: tuple[str, ...], options: ScoringOptions) -> None:
    """Begin to score an answer set that is being published, while other answers are generated; `score` takes the result."""
    _prepare(names)
    work.scoring = score_when_published.start(work, names, options=options)


def _prepare(names: Iterable[str]) -> None:
    """Import and hash scorers once, before several threads use them."""
    for name in dict.fromkeys(names):
        label_now(name)


def publish(scorings: Scorings) -> None:
    """Publish all new scores in one commit, then compare them with the previous scores, and combine the judges of verdicts."""
    repository = scorings.sets[0].answers.repository
    revision = publish_scores(repository, hidden(scorings.scored))
    scorings.revision = revision or scorings.revision
    _compare(scorings)
    sets = [entry.answers for entry in scorings.sets]
    if not any(judge_run(answers.manifest.specification) for answers in sets):
        return
    try:
        scorings.panels = combine_judges(repository, scorings.revision, hidden(sets))
    except (
        RegradeError
    ) as error:  # the scores are published; they are tracked and shown without the panel
        logger.warning("the judges are not combined: %s", error)


def _compare(scorings: Scorings) -> None:
    """Compare new scorings with the previous ones; an error is logged and costs only this comparison."""
    running = [
        (entry, compare_set.start(hidden(entry), entry.title))
        for entry in scorings.sets
        if any(scored.replaces for scored in entry.scored)
    ]
    for entry, started in running:
        error = error_of(started)
        if error is None:
            continue
        logger.warning(
            "%s (answer set %s): scored and published, but not compared with the previous scoring: %s",
            entry.title,
            entry.answer_set_id,
            error,
            exc_info=None if isinstance(error, RegradeError) else error,
        )


def track(scorings: Scorings, tracking_uri: str | None, others: Sequence[ScoredSet] = ()) -> None:
    """Show scorings on the terminal, and track them in MLflow.

    An error of MLflow is kept for `Scorings.check_tracked`, so that the report comes first.

    Args:
        scorings: Published scorings.
        tracking_uri: MLflow server or database. None: the default for the repository.
        others: Answer sets without scores, shown beside them.
    """
    shown = replace(scorings, sets=[*scorings.sets, *others])
    current_display().published(evaluation_of(shown))
    uri = tracking_uri or default_tracking_uri(scorings.uri)
    published = {name: work.publish_seconds for name, work in scorings.works.items()}
    costs = {entry.answer_set_id: scorings.cost(entry.answers) for entry in scorings.sets}
    started = monotonic()
    try:
        scorings.tracked = track_scorings(
            uri, hidden(scorings.sets), scorings.revision, hidden(published), hidden(costs)
        )
        scorings.tracking_uri = public_uri(uri)
        if scorings.panels:
            sets = [entry.answers for entry in scorings.sets]
            parents = scorings.tracked.parents
            scorings.panels = track_panels(uri, hidden(scorings.panels), hidden(sets), parents)
    except RegradeError as error:
        logging.getLogger("regrade.track").warning("not tracked: %s", error)
        scorings.tracking_error = error
    scorings.track_seconds = monotonic() - started


def report(scorings: Scorings) -> Evaluation:
    """Show the result on the terminal and the run's page, and return it.

    Raises:
        SomeUnfitError: If a scorer did not fit an answer set; raised after the result is shown.
        SomeNotScoredError: If answers are damaged; raised after the result is shown.
    """
    evaluation = evaluation_of(scorings)
    current_display().finished(evaluation)
    if in_flow_run():
        from regrade.orchestration import artifacts  # noqa: PLC0415 - `regrade score` need not import Prefect

        artifacts.report(evaluation)
        artifacts.report_diffs(
            [scored.change.diff for scored in scorings.scored if scored.change is not None]
        )
    if evaluation.not_scored and scorings.tracking_error is None:
        is_damaged = any(entry.damaged for entry in evaluation.not_scored)
        raise (SomeNotScoredError if is_damaged else SomeUnfitError)(evaluation)
    return evaluation


def unscored(works: Sequence[Work]) -> Evaluation:
    """Return the answer sets of a run that scores none."""
    by_id = {work.plan.specification.answer_set_id: work for work in works}
    return evaluation_of(Scorings([ScoredSet(work.answers) for work in works], (), by_id, ""))


def evaluation_of(scorings: Scorings) -> Evaluation:
    """Return the result of a run: what was scored or generated, and what could not be scored."""
    return Evaluation(
        answer_sets=tuple(
            _result(entry, scorings)
            for entry in scorings.sets
            if entry.scored or (entry.answer_set_id in scorings.works and not entry.errors)
        ),
        not_scored=(
            *(
                NotScored(answer_set=error.path, reason=error.problem, damaged=True)
                for error in scorings.damaged
            ),
            *(_not_scored(entry, name) for entry in scorings.sets for name in entry.errors),
        ),
        panels=tuple(scorings.panels),
        repository=scorings.uri,
        tracking_uri=scorings.tracking_uri,
        time_spent=time_spent(scorings.works.values()),
    )


def time_spent(works: Iterable[Work], measured: Iterable[Progress] = ()) -> TimeSpent | None:
    """Return where the time of this run went; None if it generated nothing.

    Args:
        works: What it generated.
        measured: What it generated only to measure.
    """
    made = [each for each in (*(p for work in works for p in work.made), *measured) if each.new]
    tokens = sum(progress.completion_tokens for progress in made)
    lost = sum(progress.lost_tokens for progress in made)
    return current_clock().spent(tokens, lost) if made else None


def _not_scored(scored_set: ScoredSet, scorer: str) -> NotScored:
    error = scored_set.errors[scorer]
    return NotScored(
        answer_set=scored_set.answer_set_id,
        title=scored_set.title,
        scorer=scorer,
        reason=str(error),
        damaged=isinstance(error, DamagedAnswersError),
    )


def _result(scored_set: ScoredSet, scorings: Scorings) -> AnswerSetResult:
    answers, answer_set_id = scored_set.answers, scored_set.answer_set_id
    manifest = answers.manifest
    revision = scorings.revision or answers.revision
    scores = tuple(
        score_result(
            scored,
            scorings.tracked.run_ids.get((answer_set_id, scored.file.label)),
            scored.calibrated,
            scored.bias,
        )
        for scored in scored_set.scored
    )
    work = scorings.works.get(answer_set_id)
    progress = work.progress if work else None
    generated = sum(made.new for made in work.made) if work else 0
    run = judge_run(manifest.specification)
    return AnswerSetResult(
        benchmark=manifest.specification.benchmark.name,
        model=manifest.specification.model.name,
        model_revision=manifest.specification.model.revision,
        answer_set_id=answer_set_id,
        revision=revision or None,
        url=answers.repository.url(revision, answers.folder) if revision else None,
        rows=manifest.rows,
        expected_rows=manifest.expected,
        stopped=EarlyEnd.of_set(manifest, work.stopped, work.full_rate)
        if work and work.stopped
        else None,
        failed=manifest.failed,
        refused=manifest.refused,
        repeats=answers_per_question(manifest.specification),
        generated=generated,
        scores=scores,
        mlflow_run_id=next((score.mlflow_run_id for score in scores if score.headline), None),
        mlflow_url=scorings.tracked.urls.get(answer_set_id),
        report_url=scorings.report_urls.get(answer_set_id),
        seconds=_seconds_now(scored_set, scorings),
        tokens_per_second=progress.tokens_per_second if progress and generated else None,
        figures=figures_of(manifest, next((s.file for s in scored_set.scored if s.headline), None)),
        cost=scorings.cost(answers),
        judged=run.judged.model if run is not None and run.judged is not None else None,
        speed=work.speed if work else None,
    )


def _seconds_now(scored_set: ScoredSet, scorings: Scorings) -> dict[str, float]:
    """Return the seconds of the stages of this run; what earlier runs did takes none."""
    new = [scored.file.score_seconds for scored in scored_set.scored if scored.table is not None]
    work = scorings.works.get(scored_set.answer_set_id)
    stages = {
        "load": work.load_seconds if work else 0.0,
        "generate": work.generate_seconds if work else 0.0,
        "publish": work.publish_seconds if work else 0.0,
        "score": sum(new),
        "track": scorings.track_seconds,
    }
    return {stage: seconds for stage, seconds in stages.items() if seconds}


def finish(scorings: Scorings, tracking_uri: str | None) -> Evaluation:
    """Publish, track and show scorings, and return the result; errors as in `report`, and that of tracking last."""
    publish(scorings)
    track(scorings, tracking_uri)
    evaluation = report(scorings)
    scorings.check_tracked()
    return evaluation


def score_stored(job: ScoringJob) -> Evaluation:
    """Score the answer sets that match the filters, all at one commit. Needs no flow run.

    Raises:
        RepositoryError: If the repository does not exist, or no answer set matches.
        UnknownNameError: If the scorer does not exist.
        SettingsError: If the scorer does not fit.
        DamagedAnswersError: If answers are damaged; `SomeNotScoredError` instead if there were several scorings.
        TrackingError: If tracking failed; raised last, after the scores are published and reported.
    """
    if job.scorer is not None:
        job = job.model_copy(update={"scorer": stored_name(job.scorer)})
    stored = choose_sets(job)
    damaged = [*stored.damaged]
    unknown: set[str] = set()
    chosen: list[tuple[AnswerSet, tuple[str, ...]]] = []
    for answers in stored.sets:
        try:
            if _is_whole(answers):
                chosen.append((answers, _scorers(answers, job, unknown.add)))
        except DamagedAnswersError as error:  # costs the other sets nothing
            damaged.append(error)
    for name in sorted(unknown if job.scorer is None else ()):
        logger.warning(
            "scorings by '%s' are left as they are: no scorer of that name can be used here. If it is a function in a file, name "
            "the file: `regrade score --stale --scorer path/to/file.py:%s`",
            *(name, name),
        )
    for answers, scorers in chosen:
        if not scorers and not job.stale:
            logger.info(
                "%s: answer set %s waits for a judge: `regrade judge`",
                answers.manifest.specification.title,
                answers.manifest.answer_set_id,
            )
    chosen = [(answers, scorers) for answers, scorers in chosen if scorers]
    if not chosen:
        if damaged:
            raise damaged[0]
        if stored.sets and job.stale:
            logger.info("nothing is stale in %s", stored.uri)
        return Evaluation(answer_sets=(), repository=stored.uri)
    scorings = score(
        chosen, force=job.force, intact=job.intact, damaged=damaged, options=job.scoring
    )
    return finish(scorings, job.tracking_uri)


def _is_whole(answers: AnswerSet) -> bool:
    """Return False, and log it, for answers whose rest was left out when a verdict was sure: a number of them would mislead."""
    manifest = answers.manifest
    if manifest.stopped is not None:
        logger.info(
            "%s: answer set %s is not scored: %s",
            manifest.specification.title,
            manifest.answer_set_id,
            manifest.to_score(),
        )
    return manifest.stopped is None


def _scorers(
    answers: AnswerSet, job: ScoringJob, on_unknown: Callable[[str], object]
) -> tuple[str, ...]:
    if job.stale:
        stale = stale_scorers(answers, on_unknown)
        return tuple(name for name in stale if job.scorer in (None, name))
    return (job.scorer,) if job.scorer else own_scorers(answers)
