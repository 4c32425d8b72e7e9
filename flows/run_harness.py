"""Flow `run-harness`: serve a model, run an external harness against it, and import what it leaves."""

from dataclasses import replace

from prefect import flow, task
from prefect.runtime import flow_run

from regrade.exchange import harness
from regrade.exchange.harness import HarnessJob, served_model
from regrade.exchange.importing.importer import Imports
from regrade.jobs import plans_of_job
from regrade.orchestration.artifacts import show
from regrade.orchestration.events import answers_published
from regrade.orchestration.form import form, takes
from regrade.results.display import current_clock, timed
from regrade.settings.files import log_file
from regrade.text.blocks import Code, Items
from regrade.text.markdown import markdown
from regrade.text.text import counted

HARNESS_KEY = "harness"


def run_name() -> str:
    """Name of the flow run: `<model> by <harness>`."""
    parameters = flow_run.parameters
    return f"{parameters['model']} by {parameters.get('harness') or 'a harness'}"


def begin(job: HarnessJob) -> None:
    """Check harness, model and repository, before anything starts."""
    plans_of_job.begin(served_model, job)


@task(name="run harness", task_run_name="run harness")
def run_and_import(job: HarnessJob) -> Imports:
    """Return the imported answer sets, after naming them on the flow run's page."""
    imports = harness.run_harness(job, log_file("harness"), log_file("engine"), current_clock())
    sets = (imported.answers.manifest for imported in imports.sets)
    lines = [
        (
            Code(found.answer_set_id),
            f" {found.specification.title}: {counted(found.rows, 'answer')}",
        )
        for found in sets
    ]
    show(HARNESS_KEY, markdown([Items(lines)]), "Imported answers")
    return imports


@form
@flow(name="run-harness", flow_run_name=run_name)
@takes(HarnessJob)
@timed()
def run_harness(job: HarnessJob) -> Imports:
    """Serve a model with vLLM, run an external harness against it, and import its results as answers with their scores."""
    imports = run_and_import(job)
    answers_published([imported.answers for imported in imports.sets])
    return replace(imports, time_spent=current_clock().spent(0, 0))
