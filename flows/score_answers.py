"""Flow `score-answers`: score stored answers, without a model."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.scoring import score_stored
from flows.scoring_run import run_name, scored
from regrade.jobs.job import ScoringJob
from regrade.orchestration.form import form, takes


@form
@flow(name="score-answers", flow_run_name=run_name)
@takes(ScoringJob)
def score_answers(job: ScoringJob) -> State[Any]:
    """Score stored answers, all at one commit. Nothing is generated, and answers are never changed."""
    return scored(score_stored(job))
