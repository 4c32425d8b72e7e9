"""The flow `score-answers`: score stored answers, without a model."""

from datetime import date

from prefect import flow

from flows.scoring import run_name, score_stored
from regrade.job import ScoringJob, make_job
from regrade.orchestration.form import form
from regrade.reporting.results import Evaluation
from regrade.settings import ScorerName


@form(answers={"title": "Answer repository"}, tracking_uri={"title": "MLflow"})
@flow(name="score-answers", flow_run_name=run_name)
def score_answers(
    answers: str | None = None,
    model: str | None = None,
    benchmark: str | None = None,
    answer_set: str | None = None,
    scorer: ScorerName | None = None,
    revision: str | None = None,
    since: date | None = None,
    until: date | None = None,
    stale: bool = False,
    force: bool = False,
    intact: bool = False,
    tracking_uri: str | None = None,
) -> Evaluation:
    """Score stored answers at one pinned commit. Nothing is generated, and no answer is ever changed.

    Args:
        answers: Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.
        model: Only this model. None: all.
        benchmark: Only this benchmark. None: all.
        answer_set: Only this answer set; the first digits of its id are enough. None: all.
        scorer: How to grade. None: each benchmark's own scorers.
        revision: Branch, tag or commit of the repository. None: the newest commit.
        since: Only answer sets that were added to on this day (UTC) or later.
        until: Only answer sets that were begun on this day (UTC) or before.
        stale: Only where a scorer changed since it scored, or the answers grew.
        force: Score again what this very version of the scorer has scored before.
        intact: Leave damaged shards out instead of refusing their answer set; every number then says so.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    return score_stored(make_job(ScoringJob, locals()))
