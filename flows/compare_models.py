"""Flow `compare-models`: compare a candidate with a baseline question by question, and judge it."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.gating import announce, completed
from regrade.comparing.gate import gate_report
from regrade.comparing.gate_report import GateReport
from regrade.comparing.job import CompareJob
from regrade.comparing.models import Comparisons
from regrade.orchestration.form import form, takes
from regrade.settings.errors import SettingsError
from tasks.gate import show_comparisons


def run_name() -> str:
    """Name of the flow run: `<candidate> against <base>`."""
    parameters = flow_run.parameters
    return f"{parameters['candidate']} against {parameters['base']}"


@form
@flow(name="compare-models", flow_run_name=run_name)
@takes(CompareJob)
def compare_models(job: CompareJob) -> Comparisons | GateReport | State[Any]:
    """Compare the stored answers of a candidate and a baseline, and judge whether the candidate is worse."""
    if job.gate is not None and job.gate.promote:
        raise SettingsError(
            "`gate.promote` is for `evaluate-model`. Here, run `regrade promote` after the verdict."
        )
    if job.gate is not None and job.gate.stop_when_sure:
        raise SettingsError(
            "`gate.stop_when_sure` is for `evaluate-model`: here, all answers are there already. Leave it out."
        )
    together = job.compared()
    comparisons = together.comparisons
    show_comparisons(comparisons)
    if job.gate is not None:
        report = gate_report(together, job.gate, {})
        announce(report, job.answers, job.tracking_uri)
        return completed(report.summary, report)
    if not comparisons.compared:
        reasons = "; ".join(
            f"{refusal.benchmark}: {refusal.reason}" for refusal in comparisons.refused
        )
        raise SettingsError(f"Nothing could be compared: {reasons or 'no benchmark in common'}")
    return comparisons
