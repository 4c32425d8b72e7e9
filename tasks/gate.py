"""Show a gate's verdict and a comparison on the flow run's page."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from regrade.comparing import text, verdict_text
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Comparisons
from regrade.orchestration.artifacts import (
    BASELINE_KEY,
    COMPARISON_KEY,
    PAGE_KEY,
    REPORT_KEY,
    as_artifact,
    show,
)
from regrade.text.blocks import Line
from regrade.text.markdown import escape, markdown


@task(name="gate", task_run_name="gate", cache_policy=NO_CACHE)
def show_verdict(report: GateReport) -> None:
    """Show the verdict on the flow run's page."""
    show(PAGE_KEY, markdown(verdict_text.blocks(report)), report.summary)
    show(REPORT_KEY, as_artifact(report), "The verdict for programs")


@task(name="baseline", task_run_name="baseline", cache_policy=NO_CACHE)
def show_baseline(created: str) -> None:
    """Show on the flow run's page that it created the baseline, in place of a verdict."""
    show(
        BASELINE_KEY, markdown([Line(created)]), "The first run: there was nothing to compare with"
    )


@task(name="compare", task_run_name="compare", cache_policy=NO_CACHE)
def show_comparisons(comparisons: Comparisons) -> None:
    """Show the comparison on the flow run's page."""
    description = f"{escape(comparisons.candidate)} against {escape(comparisons.base)}"
    show(COMPARISON_KEY, markdown(text.blocks(comparisons)), description)
