"""Flow `plan-model`: which splits of GPUs a model fits on, and how many requests they hold."""

from pathlib import Path

from prefect import flow
from prefect.runtime import flow_run

from regrade.orchestration.form import form, takes
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.request import PlanRequest
from tasks.plan_memory import plan_memory


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


@form
@flow(name="plan-model", flow_run_name=run_name)
@takes(PlanRequest)
def plan_model(job: PlanRequest) -> MemoryPlan:
    """Plan a model's memory, without its weights and without a GPU: what fits, and how many requests at a time."""
    return plan_memory(job)
