"""Plan a model's memory, and show the plan on the flow run's page."""

from prefect import task

from regrade.orchestration.artifacts import PLAN_KEY, PLAN_REPORT_KEY, as_artifact, show
from regrade.settings.files import log_file
from regrade.text.markdown import escape, markdown
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.plan.text import blocks, headline
from tasks.step import DELAYS, retried


@task(name="plan", task_run_name="plan", **retried(*DELAYS))
def plan_memory(request: PlanRequest) -> MemoryPlan:
    """Return the plan, after showing it on the flow run's page."""
    plan = make_memory_plan(request, log=log_file("plan"))
    show(PLAN_KEY, markdown(blocks(plan)), escape(headline(plan)))
    show(PLAN_REPORT_KEY, as_artifact(plan), "The plan for programs")
    return plan
