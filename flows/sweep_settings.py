"""Flow `sweep-settings`: evaluate a model at each point of a grid of settings, and compare speed and accuracy."""

from prefect import flow

from flows import generating
from flows.generating import GENERATION_FORM
from flows.sweeping import run_sweep
from regrade.job import EngineSettings, make_job
from regrade.orchestration.form import form
from regrade.orchestration.sweeps import check_complete, report_sweep
from regrade.scorers import load_scorer
from regrade.settings import (
    BenchmarkName,
    DatasetBenchmark,
    GoodputLimits,
    HarnessTasks,
    PromptSettings,
    Reuse,
    SamplingSettings,
    ScorerName,
    ScoringOptions,
    SourceOverride,
)
from regrade.sweeping.axes import Axis
from regrade.sweeping.points import SweepJob, check_address
from regrade.sweeping.results import SweepResult
from regrade.tracking.process import prepare
from tasks.sweep import track_points


def run_name() -> str:
    """Name of the flow run: `sweep <model>: <benchmarks>`."""
    return f"sweep {generating.run_name()}"


@form(
    **GENERATION_FORM,
    in_flight={"title": "Requests in flight"},
    axes={"title": "Settings that vary"},
    tracking_uri={"title": "MLflow"},
)
@flow(name="sweep-settings", flow_run_name=run_name)
def sweep_settings(
    model: str,
    benchmarks: tuple[BenchmarkName, ...] = (),
    in_flight: tuple[int, ...] = (),
    axes: tuple[Axis, ...] = (),
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
    goodput: GoodputLimits | None = None,
    scorer: ScorerName | None = None,
    scoring: ScoringOptions | None = None,
    tracking_uri: str | None = None,
) -> SweepResult:
    """Evaluate a model at each point of a grid of settings, and compare speed and accuracy with the first point.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a folder with a checkpoint.
        benchmarks: Benchmarks to run at each point; at least one, here or under "Benchmarks of your own".
        in_flight: Numbers of requests at a time. Empty: as many as the engine takes.
        axes: Further settings, each with its values; all combinations are measured, the first one is compared with.
        limit: Number of questions of each benchmark, spread evenly over it. None: all.
        sampling: Decoding settings of all points. None: the defaults of each benchmark, or the model's if it reasons.
        engine: Engine settings of all points. None: vLLM on the worker's machine with its defaults.
        answers: Answer repository in which the sweep gets a folder. None: the worker's default.
        prompt: Prompt settings of all points. None: the defaults of each benchmark.
        repeats: Answers per question; more than one needs a temperature above 0. None: the number of each benchmark.
        datasets: Further benchmarks: a dataset on the Hub or in a file, with a prompt template.
        lm_eval: Tasks of lm-evaluation-harness to run as benchmarks. None: none.
        sources: Files or folders to use instead of a benchmark's dataset on the Hub.
        reuse: Use of stored answers. None: they are kept, and failed requests are sent again.
        goodput: Longest latencies of answers that are counted as goodput. None: goodput is not measured.
        scorer: Scorer to use. None: the scorers of each benchmark.
        scoring: How scorers run that need processes or a sandbox. None: on all cores, in bubblewrap.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    job = make_job(SweepJob, locals())
    check_address(job)
    if job.scorer is not None:
        load_scorer(job.scorer)
    prepare()
    result = track_points(run_sweep(job), job)
    report_sweep(result)
    check_complete(result)
    return result
