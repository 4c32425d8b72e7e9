"""Plan the two replays of an answer set: by the model that gave the answers, and by another one."""

from typing import TypeAlias, TypeVar

from prefect import task

from regrade.answers.sets import AnswerSet, find_set
from regrade.comparing.sides import find_side
from regrade.engines.base import BaseEngineSettings
from regrade.jobs.job import EngineJob
from regrade.jobs.plan import Plan, make_plan
from regrade.jobs.plans_of_job import planned
from regrade.jobs.replay import OWN_READINGS, ReplayJob, ReplayQuestions
from regrade.models.base import ResolvedModel
from regrade.records.specification import Specification
from regrade.settings import PromptSettings
from regrade.settings.errors import SettingsError
from tasks.plan import as_work
from tasks.step import DELAYS, retried
from tasks.work import Work

_T = TypeVar("_T")
Replay: TypeAlias = AnswerSet | tuple[EngineJob, _T]
"""A replay that is stored, or the plan or work for an engine."""


@task(name="plan", task_run_name="plan", **retried(*DELAYS))
def plan_replays(job: ReplayJob) -> tuple[AnswerSet, list[Replay[Work]]]:
    """Find the answers and resolve the models.

    Returns:
        The answers, and the replays by the model that gave them and by the other one; the spools are not open yet.
    """
    answers, replays = planned(plans_of_replay, job)
    works: list[Replay[Work]] = []
    for replay in replays:
        if isinstance(replay, AnswerSet):
            works.append(replay)
        else:
            settings, plan = replay
            works.append((settings, as_work(plan, answers.repository, settings)))
    return answers, works


def plans_of_replay(job: ReplayJob) -> tuple[AnswerSet, list[Replay[Plan]]]:
    """Return the answers, and the plans of both replays; see `plan_replays`."""
    job.engine.check_here()
    answers = answers_of(job)
    repository = answers.repository
    known = answers.manifest.specification
    own = ReplayQuestions(answers, readings=OWN_READINGS, limit=job.limit)
    stored = find_set(repository, own.by_own_model, answers.revision)
    replays: list[Replay[Plan]] = []
    if stored is not None and stored.manifest.state == "complete":
        replays.append(stored)
    else:
        engine = job.own_engine(answers.manifest)
        name = _own_name(job, answers)
        settings = job.of(name, engine, own=True)
        plan = _plan(own, engine, engine.resolve(name))
        same = plan.specification.answer_set_id == own.by_own_model.answer_set_id
        if known.model.kind in ("hub", "local") and not same:
            raise SettingsError(
                f"'{name}' does not compute what the model of the answers did: it is {_computed(plan.specification)}, the answers "
                f"are by {_computed(own.by_own_model)}. Name the model that answered with `own_model`, on a machine of that kind."
            )
        replays.append((settings, plan))
    name = job.model or _own_name(job, answers)
    settings = job.of(name, job.engine, own=False)
    questions = ReplayQuestions(answers, readings=1, limit=job.limit)
    plan = _plan(questions, job.engine, job.engine.resolve(name))
    replays.append((settings, plan))
    return answers, replays


def answers_of(job: ReplayJob) -> AnswerSet:
    """Return the answers that a job names, at the newest commit.

    Raises:
        RepositoryError: If there are none.
        SettingsError: If the name stands for several answer sets.
    """
    side = find_side(job.answer_set, job.answers)
    if len(side.sets) > 1:
        ids = ", ".join(f"{s.manifest.answer_set_id} ({name})" for name, s in side.sets.items())
        raise SettingsError(
            f"'{job.answer_set}' has several answer sets, and a replay is about one: {ids}."
        )
    [answers] = side.sets.values()
    return answers


def _own_name(job: ReplayJob, answers: AnswerSet) -> str:
    model = answers.manifest.specification.model
    if job.own_model is not None:
        return job.own_model
    if model.kind == "hub" and model.adapter is None:
        return f"{model.name}@{model.revision}"
    if model.kind == "local" and job.model is not None and job.engine.kind == "vllm":
        return job.model  # the same model under other settings, if it is the same
    raise SettingsError(
        f"Only the name of the model that answered is stored ('{model.name}', {model.kind}). Give its folder or its name on the Hub "
        "with `own_model`."
    )


def _plan(questions: ReplayQuestions, engine: BaseEngineSettings, model: ResolvedModel) -> Plan:
    return make_plan(
        questions,
        model,
        engine,
        sampling=None,
        prompt=PromptSettings(),
        repeats=questions.readings_of_all,
        repeats_greedy=True,
    )


def _computed(specification: Specification) -> str:
    model, engine = specification.model, specification.engine
    parts = [f"revision {model.revision[:12]}", *(f"{n}={v}" for n, v in engine.items())]
    if model.quantization is not None:
        parts.append(f"quantization={model.quantization}")
    return f"'{model.name}' ({', '.join(parts)})"
