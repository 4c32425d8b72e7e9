"""Flow `plan-model`: which splits of GPUs a model fits on, and how many requests they hold."""

from pathlib import Path

from prefect import flow, task
from prefect.runtime import flow_run

from regrade.orchestration.artifacts import PLAN_KEY, PLAN_REPORT_KEY, as_artifact, show
from regrade.orchestration.form import form, takes
from regrade.settings.files import log_file
from regrade.text.markdown import escape, markdown
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.plan.text import blocks, headline
from tasks.step import DELAYS, retried


def run_name() -> str:
    """Name of the flow run: `<model> on <GPUs>`; a folder is shortened to its last two parts."""
    parameters = flow_run.parameters
    model = str(parameters["model"])
    if Path(model).is_absolute():
        model = "/".join(Path(model).parts[-2:])
    memory = parameters.get("gpu_memory")
    kind = parameters.get("gpu") or (f"GPUs of {memory}" if memory else "this machine")
    gpus = parameters.get("gpus")
    return f"{model} on {f'{gpus} x ' if gpus else ''}{kind}"


@task(name="plan", task_run_name="plan", **retried(*DELAYS))
def plan_memory(request: PlanRequest) -> MemoryPlan:
    """Return the plan, after showing it on the flow run's page."""
    plan = make_memory_plan(request, log=log_file("plan"))
    show(PLAN_KEY, markdown(blocks(plan)), escape(headline(plan)))
    show(PLAN_REPORT_KEY, as_artifact(plan), "The plan for programs")
    return plan


@form
@flow(name="plan-model", flow_run_name=run_name)
@takes(PlanRequest)
def plan_model(job: PlanRequest) -> MemoryPlan:
    """Plan a model's memory, without its weights and without a GPU: what fits, and how many requests at a time."""
    return plan_memory(job)
