"""Flow `evaluate-model`: generate missing answers, publish, score, track and report, with an optional gate."""

import logging
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import generating
from flows.gating import check_baseline, completed, gate_answers, is_first, promote
from flows.generating import (
    GENERATION_FORM,
    SCORED_ELSEWHERE,
    finish_unscored,
    is_to_be_scored,
    run_name,
    unscored,
)
from flows.handing_on import hand_on
from flows.judging import check_rubric, judge_job, judge_sets
from flows.scoring import own_scorers, publish, report, score, track
from regrade.job import EngineSettings, EvaluationJob, JudgeSettings, make_job
from regrade.orchestration.form import form
from regrade.orchestration.naming import name_run
from regrade.reporting.results import Evaluation, check_answered
from regrade.reporting.tables import headline
from regrade.scorers import load_scorer, stored_name
from regrade.settings import (
    BenchmarkName,
    DatasetBenchmark,
    GateSettings,
    GoodputLimits,
    HarnessTasks,
    PromptSettings,
    Reuse,
    SamplingSettings,
    ScorerName,
    ScoringOptions,
    SourceOverride,
    TokenPrice,
)
from regrade.shares import ShareText
from regrade.tracking.process import prepare

logger = logging.getLogger("regrade.gate")


@form(
    **GENERATION_FORM,
    tracking_uri={"title": "MLflow"},
    machines={"title": "Machines that generate", "minimum": 1, "maximum": 1000},
)
@flow(name="evaluate-model", flow_run_name=run_name)
def evaluate_model(
    model: str,
    benchmarks: tuple[BenchmarkName, ...] = (),
    limit: int | None = None,
    sampling: SamplingSettings | None = None,
    engine: EngineSettings | None = None,
    answers: str | None = None,
    prompt: PromptSettings | None = None,
    repeats: int | None = None,
    datasets: tuple[DatasetBenchmark, ...] | None = None,
    lm_eval: HarnessTasks | None = None,
    sources: tuple[SourceOverride, ...] | None = None,
    reuse: Reuse | None = None,
    share: ShareText | None = None,
    goodput: GoodputLimits | None = None,
    scorer: ScorerName | None = None,
    scoring: ScoringOptions | None = None,
    judge: JudgeSettings | None = None,
    gate: GateSettings | None = None,
    price: TokenPrice | None = None,
    tracking_uri: str | None = None,
    machines: int | None = None,
) -> Evaluation | State[Any]:
    """Evaluate a model: generate the missing answers, then publish, score and track them.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a folder with a checkpoint.
        benchmarks: Benchmarks to run; at least one, here or under "Benchmarks of your own".
        limit: Number of questions of each benchmark, spread evenly over it. None: all.
        sampling: Decoding settings. None: the defaults of each benchmark, or the model's if it reasons before it answers.
        engine: Engine that generates the answers. None: vLLM on the worker's machine with its defaults.
        answers: Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.
        prompt: Prompt settings: format, examples, system message. None: the defaults of each benchmark.
        repeats: Answers per question; more than one needs a temperature above 0. None: the number of each benchmark.
        datasets: Further benchmarks: a dataset on the Hub or in a file, with a prompt template.
        lm_eval: Tasks of lm-evaluation-harness to run as benchmarks. None: none.
        sources: Files or folders to use instead of a benchmark's dataset on the Hub.
        reuse: Use of stored answers. None: they are kept, and failed requests are sent again.
        share: Part of the questions with which this machine begins, such as `2/4`, if several machines generate the same
            answers; `auto` in a Slurm array or an indexed Job. None: it is alone.
        goodput: Longest latencies of answers that are counted as goodput. None: goodput is not measured.
        scorer: Scorer to use. None: the scorers of each benchmark.
        scoring: How scorers run that need processes or a sandbox. None: on all cores, in bubblewrap.
        judge: Judges that grade the answers afterwards, once the model's engine has ended. None: no judge.
        gate: Baseline and limits for a verdict whether the model is worse. None: no verdict.
        price: Price of the model's tokens. None: no cost is shown.
        tracking_uri: MLflow server or database. None: the worker's default.
        machines: Number of machines that generate: as many runs of `generate-answers` start on its pool, and this run waits
            for them and scores. None: this machine generates.
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
            generating.generate(
                job, works
            )  # each answer set is published while the next is generated
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
    verdict = gate_answers(whole, gate, job.tracking_uri) if gate is not None else None
    note = ""
    if (
        job.gate is not None
        and job.gate.promote
        and (first or (verdict and verdict.verdict == "pass"))
    ):
        note = promote(whole, job.gate.baseline, job.tracking_uri)
        logger.info("%s", note)
    scorings.check_tracked()  # last, because the verdict needs published scores but not MLflow
    check_answered(evaluation)
    if others := [work for work in works if not work.ends_here]:
        check_answered(unscored(others))  # those that another machine scores
    name_run(evaluation)
    message = headline(evaluation) if verdict is None else verdict.summary
    return completed("; ".join(part for part in (message, note) if part), evaluation)
