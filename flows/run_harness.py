"""Flow `run-harness`: serve a model, run an external harness against it, and import what it leaves."""

from dataclasses import replace

from prefect import flow
from prefect.runtime import flow_run

from regrade.exchange.harness import HarnessJob, served_model
from regrade.exchange.importing.importer import Imports
from regrade.jobs import plans_of_job
from regrade.orchestration.events import answers_published
from regrade.orchestration.form import form, takes
from regrade.results.display import current_clock, timed
from tasks.run_harness import run_and_import


def run_name() -> str:
    """Name of the flow run: `<model> by <harness>`."""
    parameters = flow_run.parameters
    return f"{parameters['model']} by {parameters.get('harness') or 'a harness'}"


def begin(job: HarnessJob) -> None:
    """Check harness, model and repository, before anything starts."""
    plans_of_job.begin(served_model, job)


@form
@flow(name="run-harness", flow_run_name=run_name)
@takes(HarnessJob)
@timed()
def run_harness(job: HarnessJob) -> Imports:
    """Serve a model with vLLM, run an external harness against it, and import its results as answers with their scores."""
    imports = run_and_import(job)
    answers_published([imported.answers for imported in imports.sets])
    return replace(imports, time_spent=current_clock().spent(0, 0))
