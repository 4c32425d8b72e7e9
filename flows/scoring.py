"""Score answer sets, publish the scores and track them (`score-answers`, `rescore-answers`, `judge-answers`, `evaluate-model`).

Imports no Prefect: `regrade score` runs this without a flow run if there is no Prefect server.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from regrade.answers.sets import AnswerSet
from regrade.judging.panel_result import PanelResult
from regrade.records.rubrics.facts import judge_run
from regrade.scorers import JUDGE
from regrade.scoring.score import label_now
from regrade.settings import ScoringOptions
from regrade.settings.errors import DamagedAnswersError, RegradeError
from regrade.tracking.connection import default_tracking_uri, public_uri
from tasks.panel import combine_judges, track_panels
from tasks.publish_scores import publish_scores
from tasks.score import Graded, ScoredSet, compare_set, score_set
from tasks.step import error_of, hidden
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
    """Commit of the answers, and of the scores once they are published."""
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

    def seconds(self, answers: AnswerSet) -> dict[str, float]:
        """Seconds per stage: load and generate over all sessions, publish for this run only."""
        totals = answers.manifest.totals
        work = self.works.get(answers.manifest.answer_set_id)
        return {
            "load": totals.load_seconds,
            "generate": totals.seconds,
            "publish": work.publish_seconds if work else 0.0,
        }

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
    """Return the scorers of a benchmark that read these answers: those of a judge read its verdicts."""
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
    for name in dict.fromkeys(name for _, names in chosen for name in names):
        label_now(name)  # imports and hashes the scorer once, before several threads use it
    futures = [
        score_set.start(hidden(answers), names, force=force, intact=intact, options=options)
        for answers, names in chosen
    ]
    sets = [future.result() for future in futures]
    errors = [*damaged, *(error for scored_set in sets for error in scored_set.errors.values())]
    if len(errors) == 1 and not any(scored_set.scored for scored_set in sets):
        raise errors[0]
    by_id = {work.plan.specification.answer_set_id: work for work in works}
    return Scorings(sets, damaged, by_id, chosen[0][0].revision)


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
    except RegradeError as error:  # scores are published: they are tracked and shown without it
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
        expected = isinstance(error, RegradeError)
        logger.warning(
            "%s (answer set %s): scored and published, but not compared with the previous scoring: %s",
            entry.title,
            entry.answer_set_id,
            error,
            exc_info=None if expected else error,
        )


def track(scorings: Scorings, tracking_uri: str | None) -> None:
    """Track scorings in MLflow; an error is kept for `Scorings.check_tracked`, so that the report comes first.

    Args:
        scorings: Published scorings.
        tracking_uri: MLflow server or database. None: the default for the repository.
    """
    uri = tracking_uri or default_tracking_uri(scorings.uri)
    seconds = {entry.answer_set_id: scorings.seconds(entry.answers) for entry in scorings.sets}
    costs = {entry.answer_set_id: scorings.cost(entry.answers) for entry in scorings.sets}
    started = monotonic()
    try:
        scorings.tracked = track_scorings(
            uri,
            hidden(scorings.sets),
            scorings.revision,
            hidden(seconds),
            hidden(costs),
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
