"""Generate, publish and score the points of a sweep, with as few engine starts as possible."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from flows.engine_session import EngineSession
from flows.generating import Round, answered, generate_rounds, plan, publish, publish_complete
from flows.scoring import publish as publish_scorings
from flows.scoring import score, time_spent
from regrade.answers.result import Result
from regrade.cli.sweep import command_of
from regrade.jobs.generate import Progress
from regrade.jobs.job import EvaluationJob
from regrade.orchestration.worker import engine_no_longer_needed
from regrade.processes.metrics_endpoint import show
from regrade.processes.metrics_state import AnswerSetState
from regrade.scorers import stored_name
from regrade.settings.errors import OperationError, RegradeError, UserError
from regrade.text.text import counted
from regrade.tuning.sweep.measuring import gpus_of, is_steady, keep_times, measure
from regrade.tuning.sweep.points import SweepJob, SweepPoint, starts
from regrade.tuning.sweep.results import PointResult, SweepResult
from tasks.work import Work

logger = logging.getLogger("regrade.sweep")


@dataclass
class RunningPoint:
    """A point with what the sweep has done for it so far."""

    point: SweepPoint
    job: EvaluationJob
    works: Sequence[Work] = ()
    failure: str | None = None
    scored: dict[str, Result] = field(default_factory=dict)
    """By benchmark."""
    again: dict[str, list[Progress]] = field(default_factory=dict)
    """Counts of each time that all questions of an answer set were asked again, only to measure, by its id."""

    def fail(self, error: RegradeError) -> None:
        """Keep the reason why this point has no result; the first reason stays."""
        self.failure = self.failure or str(error)
        logger.warning("%s: %s", self.point.name, error)


def run_sweep(job: SweepJob) -> SweepResult:
    """Generate what is missing of every point, score all, and measure them against the first.

    A point that fails has its reason in the result, and the others go on.
    """
    groups = [
        [RunningPoint(point, point.job()) for point in group] for group in starts(job.points())
    ]
    points = sorted((p for group in groups for p in group), key=lambda p: p.point.number)
    with EngineSession() as engines:
        for group in groups:
            _run_group(group, points, engines, last=group is groups[-1])
    for running in points:
        _score(running, job)
    return _result(job, points, engines.starts)


def states(points: Sequence[RunningPoint]) -> list[AnswerSetState]:
    """Return the states of a sweep's answer sets, whose ids are told apart by the folders of their points."""
    return [
        replace(work.state, answer_set=f"{running.point.folder}/{work.state.answer_set}")
        for running in points
        for work in running.works
    ]


def _run_group(
    group: Sequence[RunningPoint],
    points: Sequence[RunningPoint],
    engines: EngineSession,
    *,
    last: bool,
) -> None:
    """Generate the points that one engine may serve; it goes on with the next model where it can."""
    with ExitStack() as stack:
        for running in group:
            try:
                running.works = stack.enter_context(plan(running.job, running.point.name))
            except (UserError, OperationError) as error:
                running.fail(error)
        show(lambda: states(points))
        rounds = [_round(running) for running in group]
        with suppress(UserError, OperationError):  # if all fail: it is the failure of each work
            generate_rounds(rounds, engines)
        engines.end()
        if last:
            engine_no_longer_needed()
        for running in group:
            _publish(running)


def _round(running: RunningPoint) -> Round:
    """Return a point as a round in which each answer set is measured alone, and published after that."""

    def ask(engines: EngineSession, works: Sequence[Work]) -> None:
        (work,) = works
        logger.info("%s: measured now", work.title)
        engines.limit(running.point.in_flight)
        engines.answer([work], running.job.goodput)
        _measure_again(running, work, engines)
        publish_complete(work)

    return Round(running.job, running.works, ask, alone=True)


def _measure_again(running: RunningPoint, work: Work, engines: EngineSession) -> None:
    """Ask all questions again, only to measure, while the time that they took is too short for a speed."""
    progress = work.progress
    if progress is None or progress.answered < work.plan.rows:
        return  # a point that was continued, or lacks answers
    asked = [progress]
    while not is_steady([each.seconds for each in asked]):
        # It also forgets the prompts, which would be cheaper now.
        engines.limit(running.point.in_flight)
        asked.append(engines.measure(work.requests))
    if again := asked[1:]:
        running.again[work.plan.specification.answer_set_id] = again
        logger.info(
            "%s: %s in %.1f s, too short for a speed: asked %d times more",
            work.title,
            counted(progress.new, "answer"),
            progress.seconds,
            len(again),
        )


def _publish(running: RunningPoint) -> None:
    """Publish the answer sets that did not fail; the answers of the others are published already, and a later run continues them."""
    for work in running.works:
        if work.failure is not None:
            running.fail(work.failure)
    try:
        publish(answered(running.works))
        for work in running.works:
            again = running.again.get(work.plan.specification.answer_set_id)
            if again and work.published is not None:
                keep_times(work.published, [each.seconds for each in again])
    except RegradeError as error:
        running.fail(error)


def _score(running: RunningPoint, job: SweepJob) -> None:
    if running.failure is not None:
        return
    names = None if job.scorer is None else (stored_name(job.scorer),)
    chosen = [
        (work.published, names or work.published.manifest.scorers)
        for work in running.works
        if work.published is not None
    ]
    try:
        scorings = score(chosen, works=running.works, options=job.scoring_options)
        publish_scorings(scorings)
    except (UserError, OperationError) as error:
        running.fail(error)
        return
    for entry in scorings.sets:
        for unfit in entry.errors.values():
            running.fail(unfit)
        answers = replace(entry.answers, revision=scorings.revision)
        benchmark = answers.manifest.specification.benchmark.name
        for result in (Result(answers, scored.file) for scored in entry.scored):
            if names or result.headline:
                running.scored.setdefault(benchmark, result)
    unanswered = sum(
        w.published.manifest.expected - w.published.manifest.rows + w.published.manifest.failed
        for w in running.works
        if w.published
    )
    if unanswered:
        running.fail(
            OperationError(
                f"Missing: {counted(unanswered, 'answer')}. The same command sends the requests again."
            )
        )


def _result(job: SweepJob, points: Sequence[RunningPoint], engine_starts: int) -> SweepResult:
    in_flight = {"in_flight": tuple(map(str, job.in_flight))} if job.in_flight else {}
    return SweepResult(
        sweep_id=job.sweep_id,
        benchmarks=job.names,
        axes={axis.setting: axis.values for axis in job.axes} | in_flight,
        points=tuple(_point_result(running, points[0]) for running in points),
        engine_starts=engine_starts,
        time_spent=time_spent(
            (work for point in points for work in point.works),
            (each for point in points for again in point.again.values() for each in again),
        ),
        command=command_of(job),
        folder=job.folder,
    )


def _point_result(running: RunningPoint, first: RunningPoint) -> PointResult:
    gpus = gpus_of(running.job.engine)
    measured = [
        measure(scored, first.scored.get(benchmark), gpus=gpus)
        for benchmark, scored in running.scored.items()
    ]
    return PointResult(
        number=running.point.number,
        name=running.point.name,
        settings=running.point.settings,
        in_flight=running.point.in_flight,
        gpus=gpus,
        answers=running.point.answers,
        benchmarks=tuple(measured),
        failure=running.failure,
    )
