"""Run an external harness against a model that is served for it, and import what it leaves."""

from prefect import task

from regrade.exchange.harness import HarnessJob, run_harness
from regrade.exchange.importing.importer import Imports
from regrade.orchestration.artifacts import show
from regrade.results.display import current_clock
from regrade.settings.files import log_file
from regrade.text.blocks import Code, Items
from regrade.text.markdown import markdown
from regrade.text.text import counted

HARNESS_KEY = "harness"


@task(name="run harness", task_run_name="run harness")
def run_and_import(job: HarnessJob) -> Imports:
    """Return the imported answer sets, after naming them on the flow run's page."""
    imports = run_harness(job, log_file("harness"), log_file("engine"), current_clock())
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
