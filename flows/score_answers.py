"""Flow `score-answers`: score stored answers, without a model."""

from datetime import date
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.scoring import run_name, score_stored, scored
from regrade.job import ScoringJob, make_job
from regrade.orchestration.form import form
from regrade.settings import ScorerName, ScoringOptions


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
    scoring: ScoringOptions | None = None,
    tracking_uri: str | None = None,
) -> State[Any]:
    """Score stored answers, all at one commit. Nothing is generated, and answers are never changed.

    Args:
        answers: Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.
        model: Only answers of this model. None: all models.
        benchmark: Only answers to this benchmark. None: all benchmarks.
        answer_set: Only this answer set; the first digits of its id are enough. None: all answer sets.
        scorer: Scorer to use. None: the scorers of each benchmark.
        revision: Branch, tag or commit of the repository. None: the newest commit.
        since: Only answer sets to which answers were added on this day (UTC) or later.
        until: Only answer sets created on this day (UTC) or earlier.
        stale: Only stale scores: the scorer changed, or answers were added.
        force: Score again even if the same version of the scorer has scored the answers.
        intact: Skip damaged shards instead of refusing their answer set; every result is then marked.
        scoring: How scorers run that need processes or a sandbox. None: on all cores, in bubblewrap.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    return scored(score_stored(make_job(ScoringJob, locals())))
