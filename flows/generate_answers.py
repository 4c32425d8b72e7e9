"""The flow `generate-answers`: only generate and publish."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from flows.generating import generate_all, generated_result, make_job
from regrade.engine_settings import EngineSettings
from regrade.job import default_answers
from regrade.orchestration.events import answers_published
from regrade.orchestration.form import form
from regrade.reporting.display import current_display
from regrade.reporting.results import Evaluation
from regrade.settings import (
    BenchmarkName,
    DatasetBenchmark,
    PromptSettings,
    SamplingParams,
    SourceOverride,
)

GENERATION_FORM: dict[str, dict[str, Any]] = {
    "model": {"minLength": 1},
    "limit": {"title": "Questions per benchmark", "minimum": 1},
    "answers": {"title": "Answer repository"},
    "repeats": {"title": "Answers per question", "minimum": 1},
    "datasets": {"title": "Benchmarks of your own"},
    "sources": {"title": "Questions from files"},
}
"""What the form says of parameters beside their types."""


def run_name() -> str:
    """Return `<model>: <benchmarks>` for the running flow; of a folder, the end of its path."""
    parameters = flow_run.parameters
    names = list(parameters.get("benchmarks") or [])
    datasets = parameters.get("datasets") or []
    names += [one["name"] if isinstance(one, dict) else one.name for one in datasets]
    model = str(parameters["model"])
    if Path(model).is_absolute():
        model = "/".join(Path(model).parts[-2:])
    return f"{model}: {', '.join(names)}" if names else model


@form(**GENERATION_FORM)
@flow(name="generate-answers", flow_run_name=run_name)
def generate_answers(
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
) -> Evaluation:
    """Generate the answers of a model that are missing, and publish them. Nothing is scored.

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
    works = generate_all(job, current_display())
    answers_published([work.published for work in works if work.published is not None])
    evaluation = Evaluation(
        answer_sets=tuple(generated_result(work) for work in works),
        repository=works[0].repository.uri,
    )
    current_display().finished(evaluation)
    return evaluation
