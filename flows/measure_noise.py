"""Flow `measure-noise`: ask a model the same questions again, and measure what changes although the model does not."""

from prefect import flow

from flows import generating
from flows.asking_again import ask_again
from regrade.comparing.job import NoiseJob
from regrade.comparing.noise import NoiseReport
from regrade.comparing.noise_text import blocks
from regrade.orchestration.artifacts import NOISE_KEY, show
from regrade.orchestration.form import form, takes
from regrade.results.display import timed
from regrade.scorers import load_scorer
from regrade.text.markdown import markdown


def run_name() -> str:
    """Name of the flow run: `noise <model>: <benchmarks>`."""
    return f"noise {generating.run_name()}"


@form
@flow(name="measure-noise", flow_run_name=run_name)
@takes(NoiseJob)
@timed(advised=False)
def measure_noise(job: NoiseJob) -> NoiseReport:
    """Ask a model the same questions again, in another order and with fewer requests in flight, and measure what changes."""
    job.check_invariance()
    if job.scorer is not None:
        load_scorer(job.scorer)  # fails before anything is generated
    report = ask_again(job)
    show(NOISE_KEY, markdown(blocks(report)), f"Noise floor of {report.model}")
    return report
