"""Flow `sweep-settings`: evaluate a model at each point of a grid of settings, and compare speed and accuracy."""

from prefect import flow

from flows import generating
from flows.sweeping import run_sweep
from regrade.orchestration.form import form, takes
from regrade.results.display import timed
from regrade.scorers import load_scorer
from regrade.tracking.process import prepare
from regrade.tuning.sweep.points import SweepJob, check_address
from regrade.tuning.sweep.results import SweepResult
from tasks.sweep import track_points
from tasks.sweep_page import check_complete, report_sweep


def run_name() -> str:
    """Name of the flow run: `sweep <model>: <benchmarks>`."""
    return f"sweep {generating.run_name()}"


@form
@flow(name="sweep-settings", flow_run_name=run_name)
@takes(SweepJob)
@timed()
def sweep_settings(job: SweepJob) -> SweepResult:
    """Evaluate a model at each point of a grid of settings, and compare speed and accuracy with the first point."""
    check_address(job)
    if job.scorer is not None:
        load_scorer(job.scorer)
    prepare()
    result = track_points(run_sweep(job), job)
    report_sweep(result)
    check_complete(result)
    return result
