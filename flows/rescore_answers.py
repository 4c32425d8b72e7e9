"""Flow `rescore-answers`: score stored answers again after a scorer changed."""

from datetime import date
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.scoring import run_name, score_stored, scored
from regrade.job import ScoringJob, make_job
from regrade.orchestration.form import form
from regrade.settings import ScorerName, ScoringOptions


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
    scoring: ScoringOptions | None = None,
    tracking_uri: str | None = None,
) -> State[Any]:
    """Score stored answers with stale scores again, and show the changes. Old scores are kept.

    Args:
        answers: Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.
        model: Only answers of this model. None: all models.
        benchmark: Only answers to this benchmark. None: all benchmarks.
        scorer: Only scores of this scorer. None: all scorers.
        since: Only answer sets to which answers were added on this day (UTC) or later.
        until: Only answer sets created on this day (UTC) or earlier.
        stale: Only stale scores: the scorer changed, or answers were added. Otherwise: all answers again.
        scoring: How scorers run that need processes or a sandbox. None: on all cores, in bubblewrap.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    return scored(score_stored(make_job(ScoringJob, {**locals(), "force": not stale})))
