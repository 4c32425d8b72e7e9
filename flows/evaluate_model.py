"""Flow `evaluate-model`: generate missing answers, publish, score, track and report, with an optional gate."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import generating
from flows.engine_session import EngineSession
from flows.gating import NotFirstError, announce, completed, judge_answers, promote
from flows.generating import SCORED_ELSEWHERE, finish_unscored, is_to_be_scored, run_name
from flows.judging import judge_job, judge_sets
from flows.scoring import (
    Scorings,
    own_scorers,
    publish,
    report,
    score,
    score_early,
    track,
    unscored,
)
from regrade.answers.manifest import Stopped
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import SpoolBusyError
from regrade.checkpoints.following import Following, Notes
from regrade.checkpoints.found import Found, alias_of
from regrade.comparing.beforehand import is_first
from regrade.comparing.checking import check_evaluation, check_plans
from regrade.comparing.gate_report import GateReport
from regrade.comparing.sides import find_side
from regrade.jobs.job import EvaluationJob
from regrade.orchestration import artifacts
from regrade.orchestration.artifacts import name_run
from regrade.orchestration.form import form, takes
from regrade.orchestration.worker import engine_no_longer_needed
from regrade.pages.report.request import ReportRequest
from regrade.pages.report.tracked import ARTIFACT, log_report, prepare_report
from regrade.results.display import current_clock, current_display, timed
from regrade.results.results import EarlyEnd, Evaluation, Gated, check_answered
from regrade.results.tables import headline
from regrade.scorers import stored_name
from regrade.settings import GateSettings
from regrade.settings.errors import (
    ModelError,
    OperationError,
    RegradeError,
    RepositoryError,
    SettingsError,
    UserError,
)
from regrade.text.text import counted
from regrade.tracking.connection import artifact_url, default_tracking_uri, open_store
from regrade.tracking.process import call_in_process, call_later, prepare
from tasks.score import ScoredSet
from tasks.work import Work

# Add a report, one file to pass on, to each evaluated model's run in MLflow.

report_logger = logging.getLogger("regrade.report")
MAX_ROWS = 200_000
"""Most answers of a model from which examples are chosen; with more, the report has only numbers."""


def hand_on(
    scorings: Scorings,
    tracking_uri: str | None,
    gate: GateSettings | None,
    verdict: GateReport | None = None,
) -> None:
    """Add a report to the run of each model, compared with the gate's baseline if there is one.

    A report that cannot be made is logged: the result is complete without it.

    Args:
        scorings: Published and tracked scorings.
        tracking_uri: MLflow server or database. None: the default for the repository.
        gate: Baseline of the evaluation. None: no comparison.
        verdict: Verdict of the gate, with which the report begins.
    """
    repository = scorings.sets[0].answers.repository.uri
    uri = tracking_uri or default_tracking_uri(repository)
    by_run: dict[str, list[str]] = {}
    for answer_set_id, run_id in scorings.tracked.parents.items():
        by_run.setdefault(run_id, []).append(answer_set_id)
    rows = {item.answer_set_id: item.answers.manifest.rows for item in scorings.sets}
    for run_id, ids in by_run.items():
        request = ReportRequest(
            answers=repository,
            names=tuple(ids),
            base=None if gate is None else gate.baseline,
            base_answers=None if gate is None else gate.base_answers,
            allow=() if gate is None else gate.allow,
            examples=200 if sum(rows[answer_set_id] for answer_set_id in ids) <= MAX_ROWS else 0,
        )
        try:
            call_in_process(log_report, uri, run_id, request, verdict)
        except RegradeError as error:
            report_logger.warning("no report in MLflow: %s", error)
            continue
        for answer_set_id in ids:
            page = artifact_url(scorings.tracked.urls.get(answer_set_id), ARTIFACT)
            if page is not None:
                scorings.report_urls[answer_set_id] = page


logger = logging.getLogger("regrade.gate")
watch_logger = logging.getLogger("regrade.watch")


@form
@flow(name="evaluate-model", flow_run_name=run_name)
@takes(EvaluationJob)
@timed()
def evaluate_model(job: EvaluationJob) -> Evaluation | State[Any]:
    """Evaluate a model: generate the missing answers, then publish, score and track them."""
    if job.follow is not None:
        with timed(advised=False):
            return completed(*_follow(job, job.follow))
    return completed(*_evaluate(job))


def _evaluate(job: EvaluationJob, session: EngineSession | None = None) -> tuple[str, Evaluation]:
    """Evaluate the models of a job, and return a message and the result; a session keeps its engine."""
    first = check_evaluation(job)

    def check(works: Sequence[Work]) -> None:
        for line in check_plans(job, [work.plan for work in works], first=first):
            logger.info("%s", line)

    prepare()  # imports MLflow while the engine loads
    scorers = None if job.scorer is None else (stored_name(job.scorer),)

    def score_published(work: Work) -> None:
        score_early(work, scorers or own_scorers(work.answers), job.scoring_options)

    if job.machines is None:
        with generating.plan(job) as planned:
            check(planned)
            if any(work.requests for work in planned):
                uri = job.tracking_uri or default_tracking_uri(job.answers)
                call_later(partial(open_store, uri))  # while the engine loads, too
                call_later(prepare_report)
            # Each answer set is published and scored while the others are generated.
            others_follow = job.judge is not None
            generating.generate(job, planned, score_published, session, others_follow=others_follow)
            sets = generating.publish(generating.answered(planned))
    else:
        planned, sets = generating.generate_on_machines(job, job.machines, check)
    works = generating.answered(planned)
    gate = job.gate if len(works) == len(planned) else None  # no verdict on a part of what is asked
    sure: dict[str, Stopped] = {}
    early: list[AnswerSet] = []
    for work in works:
        if work.stopped is not None:
            sure[work.plan.specification.benchmark.name] = work.stopped
            early.append(work.answers)
            saved = EarlyEnd.of_set(work.answers.manifest, work.stopped, work.full_rate).saved
            logger.info("%s: %s", work.title, saved)
    whole = [found for found in sets if is_to_be_scored(found, works) and found not in early]
    if not whole:
        evaluation = finish_unscored(works)
        generating.check_failures(planned)
        if gate is None or not early:
            return SCORED_ELSEWHERE, evaluation
        stopped = judge_answers(early, gate, sure)
        announce(stopped, early[0].repository.uri, job.tracking_uri)
        return stopped.summary, _gated(evaluation, stopped)
    chosen = [(answers, scorers or own_scorers(answers)) for answers in whole]
    if job.judge is not None:
        if session is not None:
            session.end()  # the judge's engine needs the room
        judging = judge_job(job.judge, job, whole)
        if judging is not None:
            verdicts, judged = judge_sets(judging)
            chosen, works = [*chosen, *verdicts], [*works, *judged]
        else:
            logger.warning("None of these answers are texts with a rubric: nothing is judged.")
        if session is None:
            engine_no_longer_needed()
    scorings = score(chosen, works=works, options=job.scoring_options)
    publish(scorings)
    left_out = [ScoredSet(answers) for answers in early]  # shown, and not scored
    track(scorings, job.tracking_uri, left_out)
    note = ""
    verdict: GateReport | None = None
    try:
        # The alias may have moved to another revision, whose evaluation began at the same time.
        if gate is not None and first and is_first(gate, job.answers, job.names):
            with suppress(NotFirstError):  # it ended at the same time
                note = promote(whole, gate.baseline, job.tracking_uri, first=True)
                gate = None
        if gate is not None:
            verdict = judge_answers([*whole, *early], gate, sure)
    finally:  # the result is shown, too, if there is no verdict
        hand_on(scorings, job.tracking_uri, gate, verdict)
        scorings.sets += left_out
        evaluation = report(scorings)
    if gate is not None and verdict is not None:
        announce(verdict, whole[0].repository.uri, job.tracking_uri)
        if gate.promote and verdict.verdict == "pass":
            note = promote(whole, gate.baseline, job.tracking_uri)
    if note:
        logger.info("%s", note)
    scorings.check_tracked()  # last, because the verdict needs published scores, but not MLflow
    check_answered(evaluation)
    generating.check_failures(planned)
    if others := [work for work in works if not work.ends_here]:
        check_answered(unscored(others))  # answer sets that another machine scores
    message = headline(evaluation) if verdict is None else verdict.summary
    message = "; ".join(part for part in (message.removesuffix("."), note) if part)
    return message, _gated(evaluation, verdict)


def _follow(job: EvaluationJob, quiet: float) -> tuple[str, Evaluation]:
    """Evaluate each model that comes, such as the checkpoints of a training, in one engine; one that fails stops no other.

    Args:
        job: The job, whose names stand for the models.
        quiet: Seconds without a new model after which this ends.

    Returns:
        A message, and the results of all.

    Raises:
        OperationError: If some failed, or were not complete at the end.
        ModelError: If none came.
    """
    done: list[Evaluation] = []
    failed: dict[str, str] = {}
    aliases: dict[str, str] = {}
    display = current_display()
    notes = Notes(job.decisive if job.only_new else None)
    following = Following((job.model, *job.more_models), quiet, notes)
    if "sleep" in job.between:
        job = job.model_copy(update={"engine": job.engine.able_to_sleep()})
    with EngineSession(following) as engines:
        for found in following:
            error: RegradeError | None = None
            display.came(found.model, ended=False)
            try:
                of_found = job.of(found.model, _gate_of(found, job, aliases))
                with timed(monotonic(), advised=False):
                    done.append(_evaluate(of_found, engines)[1])
                display.finished(done[-1])  # with its verdict
            except (OperationError, UserError) as problem:
                error = problem
                failed[found.model] = str(error)
                watch_logger.error("%s: %s", found.model, error)  # noqa: TRY400 - raised at the end
            notes.end(found, elsewhere=isinstance(error, SpoolBusyError))
            if job.between != "stay" and following.peek() is None:
                engines.rest(job.between)
            display.came(found.model, None if error is None else str(error), ended=True)
    engine_no_longer_needed()
    evaluation = _all_of(done) if done else Evaluation(answer_sets=(), repository=job.answers)
    if len(done) > 1:
        artifacts.report(evaluation)
        name_run(evaluation)
    if not job.only_new:  # a later run on the schedule finds it
        failed |= following.incomplete
    if failed:
        count, names = len(done) + len(failed), ", ".join(failed)
        first = next(iter(failed.values()))
        raise OperationError(f"{len(failed)} of {count} models failed: {names}. The first: {first}")
    if done:
        message = f"{counted(len(done), 'model')}, {counted(engines.starts, 'engine start')}"
        return message + (f"; {evaluation.gate.summary}" if evaluation.gate else ""), evaluation
    if not following.left_out and not following.incomplete:
        raise ModelError(job.model, f"no complete model came within {quiet:g} s.")
    watch_logger.info(
        "nothing new: %s evaluated before, or failed; %d not complete yet",
        counted(following.left_out, "model"),
        len(following.incomplete),
    )
    return "no new models", evaluation


def _all_of(done: Sequence[Evaluation]) -> Evaluation:
    """Return the results of all models as one, with the last verdict that is not pass, if there is one."""
    verdicts = [evaluation.gate for evaluation in done if evaluation.gate is not None]
    others = [gate for gate in verdicts if gate.verdict != "pass"]
    parts = [evaluation.time_spent for evaluation in done if evaluation.time_spent is not None]
    tokens, lost = sum(part.tokens for part in parts), sum(part.lost_tokens for part in parts)
    changes = {
        "answer_sets": tuple(answers for evaluation in done for answers in evaluation.answer_sets),
        "panels": tuple(panel for evaluation in done for panel in evaluation.panels),
        "time_spent": current_clock().spent(tokens, lost) if parts else None,
        "gate": next(reversed(others or verdicts), None),
    }
    return done[-1].model_copy(update=changes)


def _gate_of(found: Found, job: EvaluationJob, aliases: dict[str, str]) -> GateSettings | None:
    """Return the gate of a model that came, with its name in the baseline; None as long as there is nothing to compare with.

    Args:
        found: The model.
        job: The job.
        aliases: Names of the models by their baselines, of those that came before.

    Raises:
        SettingsError: If another model has the same baseline, because each would be compared with the other's revisions.
    """
    if job.gate is None:
        return None
    baseline = alias_of(job.gate.baseline, found.name)
    other = aliases.setdefault(baseline, found.name)
    if baseline != job.gate.baseline and other != found.name:
        raise SettingsError(
            f"'{other}' and '{found.name}' have the same alias '{baseline}': follow them in two runs, with other texts around "
            "`{model}` in `gate.baseline`."
        )
    gate = job.gate.model_copy(update={"baseline": baseline})
    if gate.promote:
        return gate
    try:
        find_side(baseline, gate.base_answers or job.answers, job.names)
    except RepositoryError as error:
        watch_logger.info("%s: no verdict yet: %s", found.model, error)
        return None
    return gate


def _gated(evaluation: Evaluation, verdict: GateReport | None) -> Evaluation:
    """Return the result with its verdict, and name the run after it."""
    if verdict is not None:
        gated = Gated(verdict=verdict.verdict, summary=verdict.summary)
        evaluation = evaluation.model_copy(update={"gate": gated})
    name_run(evaluation)
    return evaluation
