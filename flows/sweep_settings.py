"""Flow `sweep-settings`: evaluate a model at each point of a grid of settings, and compare speed and accuracy."""

from prefect import flow

from flows import generating
from flows import parameters as p
from flows.sweeping import run_sweep
from regrade.jobs.job import make_job
from regrade.orchestration.form import form
from regrade.scorers import load_scorer
from regrade.tracking.process import prepare
from regrade.tuning.sweep.axes import Axis
from regrade.tuning.sweep.points import SweepJob, check_address
from regrade.tuning.sweep.results import SweepResult
from tasks.sweep import track_points
from tasks.sweep_page import check_complete, report_sweep


def run_name() -> str:
    """Name of the flow run: `sweep <model>: <benchmarks>`."""
    return f"sweep {generating.run_name()}"


@form(
    in_flight={"title": "Requests in flight"},
    axes={"title": "Settings that vary"},
)
@flow(name="sweep-settings", flow_run_name=run_name)
def sweep_settings(
    model: p.Model,
    benchmarks: p.Benchmarks = (),
    in_flight: tuple[int, ...] = (),
    axes: tuple[Axis, ...] = (),
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
    goodput: p.Goodput = None,
    scorer: p.Scorer = None,
    scoring: p.Scoring = None,
    tracking_uri: p.TrackingUri = None,
) -> SweepResult:
    """Evaluate a model at each point of a grid of settings, and compare speed and accuracy with the first point.

    Args:
        benchmarks: Benchmarks to run at each point; at least one, here or under "Benchmarks of your own".
        in_flight: Numbers of requests at a time. Empty: as many as the engine takes.
        axes: Further settings, each with its values; all combinations are measured, the first one is compared with.
        sampling: Decoding settings of all points. None: the defaults of each benchmark, or the model's if it reasons.
        engine: Engine settings of all points. None: vLLM on the worker's machine with its defaults.
        answers: Answer repository in which the sweep gets a folder. None: the worker's default.
        prompt: Prompt settings of all points. None: the defaults of each benchmark.
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
