"""The flow `rescore-answers`: score again what a changed scorer has scored before."""

from datetime import date

from prefect import flow

from flows.scoring import run_name, score_stored
from regrade.job import ScoringJob, make_job
from regrade.orchestration.form import form
from regrade.reporting.results import Evaluation
from regrade.settings import ScorerName


@form(answers={"title": "Answer repository"}, tracking_uri={"title": "MLflow"})
@flow(name="rescore-answers", flow_run_name=run_name)
def rescore_answers(
    answers: str | None = None,
    model: str | None = None,
    benchmark: str | None = None,
    scorer: ScorerName | None = None,
    since: date | None = None,
    until: date | None = None,
    stale: bool = True,
    tracking_uri: str | None = None,
) -> Evaluation:
    """Score all stored answers again whose scores are stale, and show what changed. Old scores stay.

    Args:
        answers: Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.
        model: Only this model. None: all.
        benchmark: Only this benchmark. None: all.
        scorer: Only this scorer. None: all that have scored before.
        since: Only answer sets that were added to on this day (UTC) or later.
        until: Only answer sets that were begun on this day (UTC) or before.
        stale: Only where a scorer changed since it scored, or the answers grew. Otherwise everything, anew.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    return score_stored(make_job(ScoringJob, {**locals(), "force": not stale}))
