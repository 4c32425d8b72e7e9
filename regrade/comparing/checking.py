"""Check an evaluation before anything of it starts: its scorers, its judges, and the baseline of its gate."""

from collections.abc import Sequence
from datetime import UTC, datetime

from regrade.answers.manifest import Manifest
from regrade.answers.opening import open_repository
from regrade.comparing.beforehand import accepted_drops, check_baseline, check_planned, is_first
from regrade.comparing.sides import find_side
from regrade.comparing.stopping import Baseline, Watch
from regrade.jobs.continuing import kept
from regrade.jobs.job import EvaluationJob, GenerationJob
from regrade.jobs.plan import Plan
from regrade.jobs.plans_of_job import begin, check_model, plans_of_all
from regrade.judging.choosing import check_asking
from regrade.scorers import JUDGE, load_scorer
from regrade.scoring.score import check_scorers
from regrade.settings import JUDGE_PREFIX
from regrade.settings.errors import SettingsError


def begin_evaluation(job: EvaluationJob) -> list[Plan] | None:
    """Check and plan an evaluation whose flow is about to run in this process; see `begin`.

    Raises:
        RegradeError: As the functions below.
    """
    first = check_evaluation(job)
    plans = begin(plans_to_score, job)
    if plans and job.gate is not None:
        repository = open_repository(job.answers, create=False, empty=True)
        stored = [kept(plan, repository) for plan in plans]
        check_plans(job, stored, first=first)
        watches(job, stored)
    return plans


def plans_to_score(job: GenerationJob) -> list[Plan]:
    """Return the plans of a job, whose answers can be scored on this machine if it scores them.

    Raises:
        RegradeError: As `plans_of_all`.
        SettingsError: If a scorer cannot run here, or a judge has to grade the answers and there is none.
    """
    plans = plans_of_all(job)
    if isinstance(job, EvaluationJob):
        for plan in plans:
            chosen = plan.benchmark.scorers if job.scorer is None else (job.scorer,)
            if JUDGE in chosen and job.judge is None:
                raise SettingsError(job.needs_judge(plan.benchmark.name))
            check_scorers(chosen, job.scoring)
    return plans


def check_evaluation(job: EvaluationJob) -> bool:
    """Refuse scorer, judges or gate of an evaluation, whatever its answers will be.

    Returns:
        True if the gate has no baseline yet, and these answers become it.

    Raises:
        SettingsError: If one of them cannot be used.
        ModelError: If there is no such judge.
        RepositoryError: If the baseline of the gate or of the judges does not exist.
        DamagedAnswersError: If it is damaged.
    """
    if job.scorer is not None:
        load_scorer(job.scorer)
    if job.judge is not None:
        judge = job.judge
        check_asking(
            judge.rubric, job.names, judge.prompt, baseline=judge.baseline, criteria=judge.criteria
        )
        for name in judge.judges:
            check_model(judge.engine, name)
        if judge.baseline is not None and not job.several_models:  # else it may be one of them
            find_side(judge.baseline, job.answers)
    if job.gate is None:
        return False
    drops = accepted_drops(job.gate)
    if job.follow is not None:  # the baseline of each model that comes may come later, too
        return False
    first = is_first(job.gate, job.answers, job.names)
    known = {*job.names}
    if not first:
        known |= check_baseline(job.gate, job.answers, job.names, job.limit).sets.keys()
    for name in drops.keys() - known:
        if not name.startswith(JUDGE_PREFIX):
            raise SettingsError(
                f"A drop is accepted for benchmark '{name}', which neither side has. Known: {', '.join(sorted(known))}."
            )
    return first


def check_plans(job: EvaluationJob, plans: Sequence[Plan], *, first: bool) -> list[str]:
    """Refuse planned answers that the gate of an evaluation could not judge once they are there.

    A run checks them twice, before its flow and in it, so that what their questions can show is returned and only the flow says it.

    Args:
        job: The evaluation.
        plans: Its answer sets.
        first: Result of `check_evaluation`.

    Raises:
        NotComparableError: If more than the model differs from the baseline, or too few questions are the same.
        SettingsError: If not even an unchanged model would pass.
    """
    if job.gate is None:
        return []
    return check_planned(job.gate, job.answers, [*map(manifest_of, plans)], first=first)


def manifest_of(plan: Plan) -> Manifest:
    """Return the manifest of a planned answer set, without answers."""
    return plan.description.manifest((), (), datetime.now(UTC))


def watches(job: EvaluationJob, plans: Sequence[Plan]) -> dict[str, Watch]:
    """Return what watches each answer set whose benchmark the baseline has, by its id, if the job asks for it.

    Raises:
        SettingsError: If a benchmark does not allow it.
        RepositoryError: If the baseline does not exist.
        DamagedAnswersError: If it is damaged.
    """
    settings = job.gate
    if settings is None or not settings.stop_when_sure:
        return {}
    side = find_side(settings.baseline, settings.base_answers or job.answers, job.names)
    read = []
    for plan in plans:
        candidate = manifest_of(plan)
        base = side.sets.get(candidate.specification.benchmark.name)
        if base is not None and base.manifest.answer_set_id != candidate.answer_set_id:
            ids = [sample.id for sample in plan.samples]
            found = Baseline.read(base, candidate, ids, settings, job.scoring_options)
            read.append((found, candidate, ids))
    return {
        candidate.answer_set_id: Watch(
            found, candidate, ids, settings, job.scoring_options, tests=len(read)
        )
        for found, candidate, ids in read
    }
