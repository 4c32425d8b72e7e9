"""Flow `rescore-answers`: score stored answers again after a scorer changed."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.scoring import score_stored
from flows.scoring_run import run_name, scored
from regrade.jobs.job import RescoringJob
from regrade.orchestration.form import form, takes


@form
@flow(name="rescore-answers", flow_run_name=run_name)
@takes(RescoringJob)
def rescore_answers(job: RescoringJob) -> State[Any]:
    """Score stored answers with stale scores again, and show the changes. Old scores are kept."""
    return scored(score_stored(job.model_copy(update={"force": not job.stale})))
