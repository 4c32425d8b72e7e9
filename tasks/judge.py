"""Plan the answer sets of judges: find the answers to judge, and turn them into questions."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from prefect import task

from regrade.answers.base import Repository
from regrade.answers.manifest import Session
from regrade.answers.opening import newest_revision, open_repository
from regrade.answers.sets import AnswerSet, intact_sets
from regrade.comparing.sides import find_side
from regrade.jobs.job import JudgeJob
from regrade.jobs.plan import Plan, make_plan
from regrade.jobs.plans_of_job import planned
from regrade.judging.choosing import (
    check_asking,
    default_rubric,
    is_judge_set,
    judged,
    rubric_of,
    waits_for_judge,
)
from regrade.judging.questions import Judged, JudgeQuestions
from regrade.judging.reusing import as_begun, known_rows
from regrade.judging.self_test import self_test
from regrade.records.rubrics import open_rubric
from regrade.records.rubrics.base import Rubric
from regrade.settings.errors import RepositoryError, SettingsError
from regrade.settings.project_folder import VERSION
from regrade.text.text import part_of
from tasks.plan import as_work, find_missing
from tasks.step import DELAYS, retried
from tasks.work import Work

logger = logging.getLogger("regrade.judge")


@task(name="plan", task_run_name="plan {judge}", **retried(*DELAYS))
def plan_judging(job: JudgeJob, judge: str) -> list[Work]:
    """Resolve a judge, find the answers, and turn them into questions.

    Returns:
        One `Work` for each judged answer set; the spools are not open yet.
    """
    plans = planned(plans_of_judge, job, judge)
    repository = open_repository(job.answers, create=False, empty=True)
    return [as_work(plan, repository, job.of(judge)) for plan in plans]


def plans_of_judge(job: JudgeJob, judge: str) -> list[Plan]:
    """Return the plan of each answer set that a judge grades, if the verdicts can be kept; see `plan_judging`."""
    check_asking(job.rubric, None, job.prompt, baseline=job.baseline, criteria=job.criteria)
    repository = open_repository(job.answers, create=False, empty=job.self_test)
    asked = open_rubric(job.rubric) if job.rubric is not None else None
    benchmarks = list(questions_of(job, repository, asked))
    settings = job.of(judge)
    model = settings.engine.resolve(judge)
    found = []
    for benchmark in benchmarks:
        plan = make_plan(
            benchmark,
            model,
            settings.engine,
            sampling=settings.sampling,
            prompt=settings.prompt,
            repeats=benchmark.run.repeats,
            repeats_greedy=True,
        )
        specification = as_begun(plan.specification.as_told, repository)
        found.append(replace(plan, specification=specification))
    open_repository(job.answers, create=True)  # checked last, because the Hub creates it
    return found


def questions_of(
    job: JudgeJob, repository: Repository, asked: Rubric | None
) -> list[JudgeQuestions]:
    """Return the questions of each answer set that a job names.

    Args:
        job: Answer sets, baseline and settings.
        repository: Answer repository.
        asked: Rubric for all of them. None: the rubric of each benchmark.

    Raises:
        RepositoryError: If there is nothing to judge.
        SettingsError: If a rubric does not fit the answers.
    """

    def questions(of: Judged, rubric: Rubric, baseline: Judged | None = None) -> JudgeQuestions:
        return JudgeQuestions(
            of,
            rubric,
            baseline=baseline,
            criteria=job.criteria,
            judge_repeats=job.judge_repeats,
            prompt=job.prompt,
            limit=job.limit,
        )

    if job.self_test:
        if job.answer_sets:
            raise SettingsError(
                "The self-test has answers of its own: leave out the answer sets, or `self_test`."
            )
        rubric = asked or open_rubric("correct")
        return [questions(self_test(rubric), rubric)]
    sets = sets_to_judge(repository, job.answer_sets, job.rubric)
    found = []
    for answers in sets:
        rubric = asked or open_rubric(rubric_of(answers, None))
        rubric_of(answers, rubric.name)  # refuses verdicts
        if answers.manifest.rows < answers.manifest.expected:
            logger.warning(
                "%s: incomplete; judging the %s that exist",
                answers.manifest.specification.title,
                part_of(answers.manifest.rows, answers.manifest.expected, "answer"),
            )
        if job.baseline is None:
            found.append(questions(judged(answers), rubric))
            continue
        other = _baseline(answers, job.baseline, job.answers)
        repeats = min(s.manifest.specification.repeats for s in (answers, other))
        found.append(questions(judged(answers, repeats), rubric, judged(other, repeats)))
    return found


def sets_to_judge(
    repository: Repository, names: Sequence[str], rubric: str | None
) -> list[AnswerSet]:
    """Return the answer sets with these names, or all whose headline number comes from a judge.

    Args:
        repository: Answer repository.
        names: Ids of answer sets (the first four digits or more), models or aliases.
        rubric: Rubric for all of them. None: of a model or alias, only the sets whose benchmark names one.

    Raises:
        RepositoryError: If there is none.
    """
    head = newest_revision(repository)
    if not names:
        waiting = [s for s in intact_sets(repository, head) if waits_for_judge(s)]
        if not waiting:
            raise RepositoryError(
                repository.uri,
                "no answers wait for a judge. Name an answer set (`regrade list`) and a `judge.rubric` to judge it all the same.",
            )
        return waiting
    chosen: dict[str, AnswerSet] = {}
    for name in names:
        side = find_side(name, repository.uri)
        fitting = [
            answers
            for answers in side.sets.values()
            if side.one_set
            or (
                not is_judge_set(answers)
                and (rubric or default_rubric(answers.manifest.specification.benchmark.name))
            )
        ]
        if not fitting:
            raise RepositoryError(
                repository.uri,
                f"no answers of '{name}' wait for a judge. Give a `judge.rubric` to judge them all the same.",
            )
        chosen |= {answers.manifest.answer_set_id: answers for answers in fitting}
    return list(chosen.values())


def _baseline(answers: AnswerSet, name: str, uri: str) -> AnswerSet:
    benchmark = answers.manifest.specification.benchmark.name
    other = find_side(name, uri, (benchmark,)).sets[benchmark]
    if other.manifest.answer_set_id == answers.manifest.answer_set_id:
        raise SettingsError(
            f"Answer set '{answers.manifest.answer_set_id}' is compared with itself. Give another `judge.baseline`."
        )
    return other


def take_known(work: Work) -> None:
    """Reuse the verdicts of earlier runs on the same texts; only the remaining requests are sent."""
    if work.reuse.fresh or not work.requests:
        return
    rows = known_rows(work.plan.specification, work.requests.rows, work.repository)
    if not rows:
        return
    work.begin(
        Session(
            id=secrets.token_hex(6),
            started_at=datetime.now(UTC),
            regrade_version=VERSION,
            engine="stored",
            engine_version=None,
            device=None,
            dtype=None,
            max_model_len=None,
            chat_template_sha256=None,
            engine_settings={},
            load_seconds=0.0,
        )
    )
    withheld = work.plan.withheld
    work.spool.append(rows if withheld is None else withheld.take(rows))
    logger.info("%s: %d verdicts on the same texts are stored already", work.title, len(rows))
    find_missing(work)
