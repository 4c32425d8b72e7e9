"""Score the stored answers that match a job's filters (`score-answers`, `rescore-answers`).

Imports no Prefect: `regrade score` runs this without a flow run if there is no Prefect server.
"""

import logging

from flows.result import report
from flows.scoring import own_scorers, publish, score, track
from regrade.answers.sets import AnswerSet
from regrade.jobs.job import ScoringJob
from regrade.jobs.stored_sets import choose_sets
from regrade.results.results import Evaluation
from regrade.scorers import stored_name
from regrade.scoring.score import stale_scorers

logger = logging.getLogger("regrade.score")


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
    damaged = stored.damaged
    chosen = [(answers, _scorers(answers, job)) for answers in stored.sets]
    for answers, scorers in chosen:
        if not scorers and not job.stale:
            logger.info(
                "%s: answer set %s waits for a judge: `regrade judge`",
                answers.manifest.specification.title,
                answers.manifest.answer_set_id,
            )
    chosen = [(answers, scorers) for answers, scorers in chosen if scorers]
    if not chosen:
        if stored.sets and job.stale:
            logger.info("nothing is stale in %s", stored.uri)
        if damaged:
            raise damaged[0]
        return Evaluation(answer_sets=(), repository=stored.uri)
    scorings = score(
        chosen, force=job.force, intact=job.intact, damaged=damaged, options=job.scoring
    )
    publish(scorings)
    track(scorings, job.tracking_uri)
    evaluation = report(scorings)
    scorings.check_tracked()
    return evaluation


def _scorers(answers: AnswerSet, job: ScoringJob) -> tuple[str, ...]:
    if job.stale:
        return tuple(name for name in stale_scorers(answers) if job.scorer in (None, name))
    return (job.scorer,) if job.scorer else own_scorers(answers)
