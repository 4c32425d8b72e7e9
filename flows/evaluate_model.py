"""The flow `evaluate-model`: generate what is missing, publish, score, track, report, and gate if asked to."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import generating, scoring
from flows.gating import check_baseline, completed, gate_answers
from flows.generating import GENERATION_FORM, run_name
from regrade.job import EngineSettings, EvaluationJob, make_job
from regrade.orchestration.form import form
from regrade.reporting.results import Evaluation
from regrade.settings import (
    BenchmarkName,
    DatasetBenchmark,
    GateSettings,
    PromptSettings,
    SamplingParams,
    SourceOverride,
)
from regrade.tracking.process import prepare


@form(**GENERATION_FORM, tracking_uri={"title": "MLflow"})
@flow(name="evaluate-model", flow_run_name=run_name)
def evaluate_model(
    model: str,
    benchmarks: tuple[BenchmarkName, ...] = (),
    limit: int | None = None,
    sampling: SamplingParams | None = None,
    engine: EngineSettings | None = None,
    answers: str | None = None,
    prompt: PromptSettings | None = None,
    repeats: int = 1,
    datasets: tuple[DatasetBenchmark, ...] | None = None,
    sources: tuple[SourceOverride, ...] | None = None,
    gate: GateSettings | None = None,
    tracking_uri: str | None = None,
) -> Evaluation | State[Any]:
    """Evaluate a model: generate the answers that are missing, publish, score and track them.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a folder with a checkpoint.
        benchmarks: Questions to ask; choose at least one, here or among your own.
        limit: So many questions of each benchmark, spread evenly over it. None: all of them.
        sampling: Decoding settings. None: each benchmark's own.
        engine: What generates. None: vLLM on the worker's machine with its defaults.
        answers: Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.
        prompt: How questions become prompts. None: as each benchmark does it.
        repeats: How often each question is asked; more than once needs a temperature above 0.
        datasets: Any dataset on the Hub or in a file, with a prompt.
        sources: A file or folder in place of a benchmark's dataset on the Hub.
        gate: Compare with a baseline and say whether the model is worse. None: no verdict.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    job = make_job(EvaluationJob, locals())
    if job.gate is not None:
        check_baseline(job.gate, job.answers, job.names)
    prepare()  # imports MLflow while the engine loads
    with generating.plan(job) as works:
        generating.generate(job, works)  # each answer set is published while the next is generated
        sets = generating.publish(works)
    scorings = scoring.score([(one, one.manifest.scorers) for one in sets], works=works)
    scoring.publish(scorings)
    scoring.track(scorings, job.tracking_uri)
    evaluation = scoring.report(scorings)
    verdict = gate_answers(sets, job.gate, job.tracking_uri) if job.gate is not None else None
    scorings.check_tracked()  # a verdict takes published scores, not MLflow
    return evaluation if verdict is None else completed(verdict, evaluation)
