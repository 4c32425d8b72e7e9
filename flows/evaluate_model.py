"""Flow `evaluate-model`: generate missing answers, publish, score, track and report, with an optional gate."""

import logging
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import generating
from flows import parameters as p
from flows.gating import (
    NotFirstError,
    check_baseline,
    completed,
    gate_answers,
    is_first,
    promote,
)
from flows.generating import run_name
from flows.handing_on import hand_on
from flows.judging import check_rubric, judge_job, judge_sets
from flows.result import report
from flows.scoring import own_scorers, publish, score, track
from flows.unscored import SCORED_ELSEWHERE, finish_unscored, is_to_be_scored, unscored
from regrade.job import EvaluationJob, make_job
from regrade.orchestration.form import form
from regrade.orchestration.naming import name_run
from regrade.reporting.headlines import headline
from regrade.reporting.results import Evaluation, check_answered
from regrade.scorers import load_scorer, stored_name
from regrade.settings import GateSettings
from regrade.tracking.process import prepare

logger = logging.getLogger("regrade.gate")


@form()
@flow(name="evaluate-model", flow_run_name=run_name)
def evaluate_model(
    model: p.Model,
    benchmarks: p.Benchmarks = (),
    limit: p.Limit = None,
    sampling: p.Sampling = None,
    engine: p.Engine = None,
    answers: p.Answers = None,
    prompt: p.Prompt = None,
    repeats: p.Repeats = None,
    datasets: p.Datasets = None,
    lm_eval: p.LmEval = None,
    sources: p.Sources = None,
    reuse: p.Reuse = None,
    share: p.Share = None,
    goodput: p.Goodput = None,
    scorer: p.Scorer = None,
    scoring: p.Scoring = None,
    judge: p.Judge = None,
    gate: GateSettings | None = None,
    price: p.Price = None,
    tracking_uri: p.TrackingUri = None,
    machines: p.Machines = None,
) -> Evaluation | State[Any]:
    """Evaluate a model: generate the missing answers, then publish, score and track them.

    Args:
        gate: Baseline and limits for a verdict whether the model is worse. None: no verdict.
    """
    job = make_job(EvaluationJob, locals())
    if job.scorer is not None:
        load_scorer(job.scorer)  # fails before anything is generated
    if job.judge is not None:
        check_rubric(job.judge, job.names)
    first = job.gate is not None and is_first(job.gate, job.answers)
    if job.gate is not None and not first:
        check_baseline(job.gate, job.answers, job.names)
    prepare()  # imports MLflow while the engine loads
    if job.machines is None:
        with generating.plan(job) as works:
            # Each answer set is published while the next is generated.
            generating.generate(job, works)
            sets = generating.publish(works)
    else:
        works, sets = generating.generate_on_machines(job, job.machines)
    whole = [answers for answers in sets if is_to_be_scored(answers, works)]
    if not whole:
        return completed(SCORED_ELSEWHERE, finish_unscored(works))
    scorers = None if job.scorer is None else (stored_name(job.scorer),)
    chosen = [(answers, scorers or own_scorers(answers)) for answers in whole]
    if job.judge is not None:
        judging = judge_job(job.judge, job, whole)
        if judging is not None:
            verdicts, judged = judge_sets(judging)
            chosen, works = [*chosen, *verdicts], [*works, *judged]
        else:
            logger.warning("None of these answers are texts with a rubric: nothing is judged.")
    scorings = score(chosen, works=works, options=job.scoring_options)
    publish(scorings)
    track(scorings, job.tracking_uri)
    # Another revision, which began at the same time, may have become the alias meanwhile.
    first = first and job.gate is not None and is_first(job.gate, job.answers)
    gate = None if first else job.gate
    hand_on(scorings, job.tracking_uri, gate)
    evaluation = report(scorings)
    verdict, note = None, ""
    if first and job.gate is not None:
        try:
            note = promote(whole, job.gate.baseline, job.tracking_uri, first=True)
        except NotFirstError:  # it ended at the same time
            gate = job.gate
            hand_on(scorings, job.tracking_uri, gate)
    if gate is not None:
        verdict = gate_answers(whole, gate, job.tracking_uri)
        if gate.promote and verdict.verdict == "pass":
            note = promote(whole, gate.baseline, job.tracking_uri)
    if note:
        logger.info("%s", note)
    scorings.check_tracked()  # last, because the verdict needs published scores but not MLflow
    check_answered(evaluation)
    if others := [work for work in works if not work.ends_here]:
        check_answered(unscored(others))  # those that another machine scores
    name_run(evaluation)
    message = headline(evaluation) if verdict is None else verdict.summary
    return completed("; ".join(part for part in (message, note) if part), evaluation)
