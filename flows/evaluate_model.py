"""The flow `evaluate-model`: generate what is missing, publish, score, track, report, and gate if asked to."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.gating import check_baseline, completed, gate_answers
from flows.generate_answers import GENERATION_FORM, run_name
from flows.generating import generate_all, generated_result, make_job
from flows.scoring import grade
from regrade.engine_settings import EngineSettings
from regrade.errors import TrackingError
from regrade.job import default_answers
from regrade.orchestration.form import form
from regrade.reporting.display import current_display
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
    job = make_job(
        model=model,
        benchmarks=benchmarks,
        limit=limit,
        sampling=sampling,
        engine=engine,
        answers=answers or default_answers(),
        prompt=prompt,
        repeats=repeats,
        datasets=datasets,
        sources=sources,
    )
    if gate is not None:
        names = [*job.benchmarks, *(one.name for one in job.datasets)]
        check_baseline(gate, job.answers, names)
    prepare()  # imports MLflow while the engine loads
    works = generate_all(job, current_display())
    sets = [work.published for work in works if work.published is not None]
    generated = {work.plan.specification.answer_set_id: generated_result(work) for work in works}
    try:
        evaluation = grade(
            sets, scorers=None, force=False, tracking_uri=tracking_uri, generated=generated
        )
    except TrackingError:
        if gate is not None:
            gate_answers(sets, gate, tracking_uri)  # a verdict takes published scores, not MLflow
        raise
    if gate is None:
        return evaluation
    return completed(gate_answers(sets, gate, tracking_uri), evaluation)
