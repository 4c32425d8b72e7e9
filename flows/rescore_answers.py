"""Flow `rescore-answers`: score stored answers again after a scorer changed."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import parameters as p
from flows.scoring_run import run_name, scored
from flows.scoring_stored import score_stored
from regrade.jobs.job import ScoringJob, make_job
from regrade.orchestration.form import form


@form()
@flow(name="rescore-answers", flow_run_name=run_name)
def rescore_answers(
    answers: p.Answers = None,
    model: p.OfModel = None,
    benchmark: p.OfBenchmark = None,
    scorer: p.Scorer = None,
    since: p.Since = None,
    until: p.Until = None,
    stale: bool = True,
    scoring: p.Scoring = None,
    tracking_uri: p.TrackingUri = None,
) -> State[Any]:
    """Score stored answers with stale scores again, and show the changes. Old scores are kept.

    Args:
        scorer: Only scores of this scorer. None: all scorers.
        stale: Only stale scores: the scorer changed, or answers were added. Otherwise: all answers again.
    """
    return scored(score_stored(make_job(ScoringJob, {**locals(), "force": not stale})))
