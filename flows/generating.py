"""Plan, generate and publish the answers of a job (`generate-answers`, `evaluate-model`)."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from prefect.futures import wait
from prefect.runtime import flow_run

from flows.engine_session import EngineSession, by_model
from flows.scoring import unscored
from regrade.answers import parquet
from regrade.answers.base import Repository
from regrade.answers.durations import remember
from regrade.answers.publishing import publish_siblings
from regrade.answers.sets import AnswerSet, find_set
from regrade.answers.spool import Spool, SpoolBusyError
from regrade.engines.base import WAITING, SwitchingEngine
from regrade.jobs.job import EngineJob, EvaluationJob, GenerationJob
from regrade.jobs.plan import PooledRequests
from regrade.orchestration import artifacts
from regrade.orchestration.artifacts import name_run
from regrade.orchestration.machines import machines_ended_early, start_machines, wait_for_machines
from regrade.orchestration.waiting import Stages
from regrade.orchestration.worker import engine_no_longer_needed, runs_under_worker
from regrade.processes.metrics_endpoint import show
from regrade.records.specification import Specification
from regrade.results.display import current_display
from regrade.results.results import Evaluation, check_answered
from regrade.settings import HarnessTasks
from regrade.settings.errors import OperationError, RegradeError, UserError
from regrade.settings.files import spool_root
from tasks.plan import find_missing, look_at_stored, plan_answers, watch_verdicts
from tasks.publish import publish_answers
from tasks.work import Work

logger = logging.getLogger("regrade")

SPOOL_POLL = 2.0
"""Seconds between two attempts to open a spool that another run has."""


def run_name() -> str:
    """Name of the flow run: `<model>: <benchmarks>`; a folder is shortened to its last two parts."""
    parameters = flow_run.parameters
    names = list(parameters.get("benchmarks") or [])
    tasks = HarnessTasks.model_validate(parameters.get("lm_eval") or HarnessTasks())
    names += tasks.names
    datasets = parameters.get("datasets") or []
    names += [entry["name"] if isinstance(entry, dict) else entry.name for entry in datasets]
    model = str(parameters["model"])
    if Path(model).is_absolute():
        model = "/".join(Path(model).parts[-2:])
    if more := parameters.get("more_models"):
        model += f" and {len(more)} more"
    return f"{model}: {', '.join(names)}" if names else model


def plan(job: GenerationJob, point: str = "") -> AbstractContextManager[list[Work]]:
    """Plan the answer sets of a job, or of a sweep's point; their spools are open and locked while the block runs."""
    planned = plan_answers(job)
    for work in planned:
        work.point = point
    if isinstance(job, EvaluationJob):
        watch_verdicts(job, planned)
    return opened(planned)


@contextmanager
def opened(works: list[Work]) -> Iterator[list[Work]]:
    """Open the spools of planned answer sets, and find the missing answers; they are locked while the block runs."""
    with ExitStack() as stack:
        stages = Stages()
        # In the same order in all runs: two that wait for each other would wait forever.
        for work in sorted(works, key=lambda work: work.spool.folder):
            _open_spool(work.spool, stack, stages)
        stages.show("reading the stored answers")
        for work in works:
            _publish_siblings(work)
            find_missing(work)
            look_at_stored(work)
        show(lambda: [work.state for work in works])
        yield works


@dataclass(frozen=True, eq=False)
class Round:
    """Answer sets that are asked of a loaded engine; if it fails at one, the rest of them fails, too."""

    job: EngineJob
    """The job with the engine's settings."""
    works: Sequence[Work]
    """The answer sets, their spools open."""
    ask: Callable[[EngineSession, Sequence[Work]], None]
    """Has the engine answer what is missing, and begins to publish each set that is complete."""
    alone: bool = False
    """Each set is asked alone, and nothing is done beside it, because its seconds are compared."""

    @property
    def missing(self) -> list[Work]:
        """The sets that lack answers."""
        return [work for work in self.works if work.requests and work.publishing is None]

    @property
    def streams(self) -> list[list[Work]]:
        """The sets that lack answers, of each stream of requests."""
        return [[work] for work in self.missing] if self.alone else [self.missing]


def publish_complete(work: Work) -> None:
    """Begin to publish an answer set."""
    work.publishing = publish_answers.submit(work)


def generate(
    job: EngineJob,
    works: Sequence[Work],
    after: Callable[[Work], None] = lambda _: None,
    session: EngineSession | None = None,
    *,
    others_follow: bool = False,
) -> None:
    """Generate missing answers; each answer set is published when it is complete, while the others are generated.

    A round for each model: one stream of requests serves all its benchmarks. Errors as in `generate_rounds`.

    Args:
        job: The job with the engine's settings.
        works: Planned answer sets, their spools open.
        after: Called with each answer set that is being published.
        session: Keeps the engine for models that come later, which are asked the same.
        others_follow: This run will need another engine; the worker is not told that it needs none any more.
    """

    def complete(work: Work) -> None:
        publish_complete(work)
        after(work)

    def ask(engines: EngineSession, asked: Sequence[Work]) -> None:
        engines.answer(asked, job.goodput, complete)

    rounds = [Round(job, model, ask) for model in by_model(works)]
    later = [] if session is None else [_whole(works)]
    generate_rounds(rounds, session, later, others_follow=others_follow)


def generate_rounds(
    rounds: Sequence[Round],
    session: EngineSession | None = None,
    later: Sequence[PooledRequests] = (),
    *,
    others_follow: bool = False,
) -> None:
    """Generate missing answers in rounds, one after the other, with as few engine starts as possible.

    Must run on the main thread: it owns the engine and stops it on any exit, unless a session keeps it. On failure, finished answers
    are published before the error is raised. An engine that ended after its first answer is replaced once in a round, because
    the cause may have been temporary (out of memory, GPU fault). A failed load is not retried, and no round of that model is tried. A
    round that fails stops no other, unless the next one fails with the same words: those of its works that are not complete have a
    `failure` (`answered`), which a caller refuses at its end (`check_failures`).

    Args:
        rounds: The rounds, also those of complete answer sets.
        session: Keeps the engine after the last one.
        later: Requests that may be planned once these are answered.
        others_follow: As in `generate`.

    Raises:
        OperationError, UserError: As the last one failed, if no answer set is complete.
    """
    is_last = session is None and not others_follow
    todo = [found for found in rounds if found.missing]
    if todo:
        parquet.prepare()  # while the engine loads
    retried = False
    problem = ""
    """Words with which the round before failed."""
    with EngineSession() if session is None else nullcontext(session) as engines:
        while todo:
            current, *others = todo
            failing = [r for r in todo if len(by_model([*r.works, *current.works])) == 1]
            further = [found for found in others if found not in failing]
            try:
                streams = [stream for found in todo for stream in found.streams]
                engine = engines.load(current.job, *streams, later=later)
                failing = [current]
                if further and not current.alone and isinstance(engine, SwitchingEngine):
                    engine.read_ahead(further[0].works[0].plan.model)
                for stream in current.streams:
                    current.ask(engines, stream)
                todo, problem, retried = others, "", False
            except (OperationError, UserError) as error:
                retried = engines.may_retry(error, retried=retried)
                if retried:
                    left = current.missing
                    publish_finished(left)
                    logger.warning("%s Retrying once with a new engine.", error)
                    for work in left:
                        find_missing(work)
                    if not current.missing:
                        todo, retried = others, False
                    continue
                failing = todo if str(error) == problem else failing
                todo, problem = [r for r in todo if r not in failing], str(error)
                if not todo and is_last:
                    engine_no_longer_needed()
                works = [work for found in rounds for work in found.works]
                _fail(failing, error, works)
                if not answered(works):
                    raise
    if is_last:
        engine_no_longer_needed()


def _fail(failing: Sequence[Round], error: RegradeError, works: Sequence[Work]) -> None:
    """Note an error at the works that failing rounds left incomplete, all but the first without being tried; publish what they have."""
    failed = [work for found in failing for work in found.missing]
    for work in failed:
        work.failure = error
    if len(failed) < len(works):
        titles = ", ".join(w.title for w in failing[0].works if w.failure is not None)
        logger.error("%s: %s", titles or "after the last answer", error)
    if failing[1:]:
        titles = ", ".join(work.title for found in failing[1:] for work in found.works)
        logger.error("not tried, as they would fail alike: %s", titles)
    publish_finished(failed)


def answered(works: Sequence[Work]) -> list[Work]:
    """Return the works at which no model failed."""
    return [work for work in works if work.failure is None]


def check_failures(works: Sequence[Work]) -> None:
    """Refuse to end well if models failed.

    Raises:
        RegradeError: The reason, if there is only one model.
        OperationError: With the number and names of the models, and the first reason.
    """
    models = by_model(works)
    failed = [model for model in models if len(answered(model)) < len(model)]
    if not failed:
        return
    reason = next(work.failure for work in failed[0] if work.failure is not None)
    if len(models) == 1:
        raise reason
    names = ", ".join(map(_lacking, failed))
    raise OperationError(f"{len(failed)} of {len(models)} models failed: {names}. {reason}")


def _lacking(model: Sequence[Work]) -> str:
    """Return the name of a model that failed, and the benchmarks that it lacks if others are complete."""
    lacking = [w.plan.specification.benchmark.name for w in model if w.failure is not None]
    name = model[0].plan.specification.model.name
    return name if len(lacking) == len(model) else f"{name} ({', '.join(lacking)})"


def _whole(works: Sequence[Work]) -> PooledRequests:
    """Return the requests of all rows, also of those that are answered."""
    return PooledRequests(tuple(w.plan.requests(w.plan.missing(set()), w.sessions) for w in works))


def generate_on_machines(
    job: EvaluationJob, machines: int, check: Callable[[Sequence[Work]], None]
) -> tuple[list[Work], list[AnswerSet]]:
    """Have other machines generate the answers of a job, wait for them, and return what is complete.

    No machine is asked if all answers are stored, or if `check` raises an error about the planned answer sets.

    Raises:
        MachinesEndedError: If they all ended before all answers were published.
    """
    works = plan_answers(job)
    check(works)
    engine_no_longer_needed()
    specifications = [job.engine.on_any_machine(work.plan.specification) for work in works]

    def complete() -> list[AnswerSet] | None:
        return _complete_sets(works[0].repository, specifications)

    sets = complete()
    if sets is None:
        runs = start_machines(machines, job.generation_parameters)
        wait_for_machines(runs, lambda: complete() is not None)
        sets = complete()
        if sets is None:
            raise machines_ended_early(runs)
    for work, answers in zip(works, sets, strict=True):
        work.plan = replace(work.plan, specification=answers.manifest.specification)
    return works, sets


def _complete_sets(
    repository: Repository, specifications: Sequence[Sequence[Specification]]
) -> list[AnswerSet] | None:
    """Return answer sets at the head of their repository; None if one is not complete.

    Args:
        repository: The repository.
        specifications: Of each set, what machines of different kinds call it: they say what they compute.
    """
    head = repository.head()
    sets = []
    for names in specifications:
        found = [find_set(repository, specification, head) for specification in names]
        complete = [stored for stored in found if stored and stored.manifest.state == "complete"]
        if not complete:
            return None
        sets.append(max(complete, key=lambda stored: stored.manifest.updated_at))
    return sets


def publish(works: Sequence[Work]) -> list[AnswerSet]:
    """Publish all answer sets that are not being published yet, wait for all, and return those that exist.

    Raises:
        RegradeError: If an answer set could not be published; its answers stay in the spool.
    """
    futures = [work.publishing or publish_answers.submit(work) for work in works]
    wait(futures)
    try:
        for future in futures:
            future.result()
    except RegradeError:
        logger.error(  # noqa: TRY400 - the error itself is reported at the end
            "not published. All answers are kept in %s; `regrade publish` publishes them without generating",
            spool_root(),
        )
        raise
    for work in works:
        if work.published is not None and work.progress is not None and work.progress.new:
            remember(work.published.manifest, datetime.now(UTC))
    return [work.published for work in works if work.published is not None]


def _open_spool(spool: Spool, stack: ExitStack, stages: Stages) -> None:
    """Open a spool, after waiting for a process that only publishes what an earlier run left in it.

    Several tasks of one machine may begin together, and each publishes what it finds in the spools of the others. A run of a
    worker also waits for a run of the same answer set, which may still publish its answers.

    Raises:
        SpoolBusyError: If another run has it and this is no run of a worker: a person can decide what to do.
    """
    while True:
        try:
            stack.enter_context(spool)
        except SpoolBusyError as error:
            if runs_under_worker():
                engine_no_longer_needed()  # other runs go first; the engine slot still keeps engines apart
            elif not error.is_brief:
                raise
            stages.show(f"{WAITING} another run of the same answer set: {error}")
            time.sleep(SPOOL_POLL)
        else:
            return


def _publish_siblings(work: Work) -> None:
    """Publish answers that earlier runs of this machine left in the spools of other shares."""
    for left in publish_siblings(work.spool.folder):
        if left.published is not None:
            logger.info("%s: answers that an earlier run left are published", work.title)
        elif left.error is not None and not isinstance(left.error, SpoolBusyError):
            logger.warning(
                "%s: answers in '%s' are not published: %s", work.title, left.folder, left.error
            )


def publish_finished(works: Sequence[Work]) -> None:
    """Publish the answers that were finished before a failure; only warn if that fails too."""
    for work in works:
        try:
            publish_answers.with_options(retries=0)(work)
        except RegradeError as error:
            logger.warning(
                "%s: not published, the answers are kept in the spool: %s", work.title, error
            )


# Answer sets that a run generates and does not score.

SCORED_ELSEWHERE = "The machine whose answers completed it scores it"
"""Message of a run whose answer sets another machine completed."""


def is_to_be_scored(answers: AnswerSet, works: Sequence[Work]) -> bool:
    """Return True if this run has the last word on an answer set; logs who has, if it is another machine."""
    answer_set_id = answers.manifest.answer_set_id
    (work,) = (w for w in works if w.plan.specification.answer_set_id == answer_set_id)
    if work.ends_here:
        return True
    if answers.manifest.state == "complete":
        logger.info("%s: complete. %s; `regrade score` does the same", work.title, SCORED_ELSEWHERE)
    return False


def finish_unscored(works: Sequence[Work]) -> Evaluation:
    """Show the answer sets of a run that scores none on the terminal and on its page, and return them.

    Raises:
        SomeUnansweredError: If an answer is missing that could be generated.
    """
    evaluation = unscored(works)
    current_display().finished(evaluation)
    artifacts.report(evaluation)
    check_answered(evaluation)
    name_run(evaluation)
    return evaluation
