"""Flow `generate-answers`: generate and publish missing answers, without scoring."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.gating import completed
from flows.generating import (
    GENERATION_FORM,
    finish_unscored,
    generate,
    is_to_be_scored,
    plan,
    publish,
    run_name,
)
from regrade.job import EngineSettings, GenerationJob, make_job
from regrade.orchestration.events import answers_published
from regrade.orchestration.form import form
from regrade.reporting.tables import headline
from regrade.settings import (
    BenchmarkName,
    DatasetBenchmark,
    GoodputLimits,
    HarnessTasks,
    PromptSettings,
    Reuse,
    SamplingSettings,
    SourceOverride,
    TokenPrice,
)
from regrade.shares import ShareText


@form(**GENERATION_FORM)
@flow(name="generate-answers", flow_run_name=run_name)
def generate_answers(
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
    price: TokenPrice | None = None,
    share: ShareText | None = None,
    goodput: GoodputLimits | None = None,
) -> State[Any]:
    """Generate the missing answers of a model and publish them. Nothing is scored.

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
        price: Price of the model's tokens. None: no cost is shown.
        share: Part of the questions with which this machine begins, such as `2/4`, if several machines generate the same
            answers; `auto` in a Slurm array or an indexed Job. None: it is alone.
        goodput: Longest latencies of answers that are counted as goodput. None: goodput is not measured.
    """
    job = make_job(GenerationJob, locals())
    with plan(job) as works:
        generate(job, works)
        published = publish(works)
    answers_published([answers for answers in published if is_to_be_scored(answers, works)])
    evaluation = finish_unscored(works)
    return completed(headline(evaluation), evaluation)
