"""Judge stored answers (`judge-answers`, `evaluate-model`): each judge answers questions about them, then they are scored."""

import logging
from collections.abc import Sequence

from flows import generating
from regrade.answers.sets import AnswerSet
from regrade.jobs.job import EvaluationJob, JudgeJob, JudgeSettings
from regrade.judging.choosing import default_rubric
from tasks.judge import plan_judging, take_known
from tasks.work import Work

logger = logging.getLogger("regrade.judge")


def judge_sets(job: JudgeJob) -> tuple[list[tuple[AnswerSet, tuple[str, ...]]], list[Work]]:
    """Generate and publish the verdicts of each judge; its engine is ended before the next one starts.

    The caller tells the worker when no engine is needed any more.

    Returns:
        The verdicts with their scorers, and the work of each set.

    Raises:
        RepositoryError: If there is nothing to judge.
        SettingsError: If the rubric does not fit the answers.
        EngineError: If the engine of a judge fails; the verdicts so far are published.
    """
    chosen: list[tuple[AnswerSet, tuple[str, ...]]] = []
    works: list[Work] = []
    for judge in dict.fromkeys(job.judges):
        with generating.opened(plan_judging(job, judge)) as planned:
            for work in planned:
                take_known(work)
            generating.generate(job.of(judge), planned, others_follow=True)
            sets = generating.publish(planned)
            generating.check_failures(planned)
        works += planned
        chosen += [(answers, answers.manifest.scorers) for answers in sets]
    return chosen, works


def judge_job(
    settings: JudgeSettings, job: EvaluationJob, sets: Sequence[AnswerSet]
) -> JudgeJob | None:
    """Return the job that judges the texts of an evaluation: those whose benchmark names a rubric, or all if the job has a rubric.

    None if there are no such texts, because a job without names would judge all stored answers that wait for a judge.
    """
    judged = [
        answers.manifest.answer_set_id
        for answers in sets
        if answers.manifest.specification.method
        != "rank"  # answers are log-probabilities of choices, not texts
        and (settings.rubric or default_rubric(answers.manifest.specification.benchmark.name))
    ]
    if not judged:
        return None
    shared = job.shared_with(JudgeJob) | settings.shared_with(JudgeJob)
    given = {"answer_sets": tuple(judged), "scoring": job.scoring_options}
    return JudgeJob(**shared | given)
