"""Flow `score-answers`: score stored answers, without a model."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import parameters as p
from flows.scoring_run import run_name, scored
from flows.scoring_stored import score_stored
from regrade.jobs.job import ScoringJob, make_job
from regrade.orchestration.form import form


@form()
@flow(name="score-answers", flow_run_name=run_name)
def score_answers(
    answers: p.Answers = None,
    model: p.OfModel = None,
    benchmark: p.OfBenchmark = None,
    answer_set: str | None = None,
    scorer: p.Scorer = None,
    revision: str | None = None,
    since: p.Since = None,
    until: p.Until = None,
    stale: bool = False,
    force: bool = False,
    intact: bool = False,
    scoring: p.Scoring = None,
    tracking_uri: p.TrackingUri = None,
) -> State[Any]:
    """Score stored answers, all at one commit. Nothing is generated, and answers are never changed.

    Args:
        answer_set: Only this answer set; the first digits of its id are enough. None: all answer sets.
        revision: Branch, tag or commit of the repository. None: the newest commit.
        stale: Only stale scores: the scorer changed, or answers were added.
        force: Score again even if the same version of the scorer has scored the answers.
        intact: Skip damaged shards instead of refusing their answer set; every result is then marked.
    """
    return scored(score_stored(make_job(ScoringJob, locals())))
