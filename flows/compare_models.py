"""Flow `compare-models`: compare a candidate with a baseline question by question, and judge it."""

from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from pydantic import Field

from flows.gating import announce, completed
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.gate import gate_report
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Cluster, Comparisons
from regrade.comparing.together import compare_sides
from regrade.jobs.job import Answers, TrackingUri, default_answers
from regrade.orchestration.form import form, takes
from regrade.settings import Difference, GateSettings, ScorerName, Settings
from regrade.settings.errors import SettingsError
from regrade.settings.marks import PATH
from tasks.gate import show_comparisons


def run_name() -> str:
    """Name of the flow run: `<candidate> against <base>`."""
    parameters = flow_run.parameters
    return f"{parameters['candidate']} against {parameters['base']}"


class CompareJob(Settings):
    """Stored answers of two sides to compare."""

    base: Annotated[str, PATH] = Field(min_length=1, title="Baseline")
    """Answer set id, model, or an alias such as `baseline`."""
    candidate: Annotated[str, PATH] = Field(min_length=1)
    """Answer set id, model or alias."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks to compare. Empty: all of the baseline."""
    answers: Answers = Field(default_factory=default_answers)
    base_answers: Annotated[str | None, PATH] = Field(
        None, title="Answer repository of the baseline"
    )
    """Answer repository of the baseline, if it differs. Default: the same repository."""
    gate: GateSettings | None = None
    """Limits of the verdict; its baseline is the one above. Default: no verdict."""
    allow: tuple[Difference, ...] = Field((), title="Differences that are meant")
    """Intended differences between the two sides; others are refused."""
    scorer: ScorerName | None = None
    """Scorer for both sides. Default: the baseline's first scorer that the candidate also has."""
    clusters: Cluster = Field("question", title="Independent of each other")
    """Unit that is independent: `question`, or `subset` if a subset is a passage with several questions."""
    examples: int = Field(3, ge=0, le=50)
    """Number of changed answers to show of each kind (right to wrong, wrong to right)."""
    tracking_uri: TrackingUri = None


@form
@flow(name="compare-models", flow_run_name=run_name)
@takes(CompareJob)
def compare_models(job: CompareJob) -> Comparisons | GateReport | State[Any]:
    """Compare the stored answers of a candidate and a baseline, and judge whether the candidate is worse."""
    settings = job.gate or GateSettings()
    if settings.promote:
        raise SettingsError(
            "`gate.promote` is for `evaluate-model`. Here, run `regrade promote` after the verdict."
        )
    coverage = settings.min_coverage
    options = CompareOptions(
        allow=(*job.allow, *settings.allow),
        min_coverage=None if coverage is None else coverage / 100,
        scorer=job.scorer,
        cluster=job.clusters,
        examples=job.examples,
    )
    together = compare_sides(
        job.base,
        job.candidate,
        answers=job.answers,
        base_answers=job.base_answers or settings.base_answers,
        benchmarks=job.benchmarks,
        options=options,
    )
    comparisons = together.comparisons
    show_comparisons(comparisons)
    if job.gate is not None:
        report = gate_report(together, settings)
        announce(report, job.answers, job.tracking_uri)
        return completed(report.summary, report)
    if not comparisons.compared:
        reasons = "; ".join(
            f"{refusal.benchmark}: {refusal.reason}" for refusal in comparisons.refused
        )
        raise SettingsError(f"Nothing could be compared: {reasons or 'no benchmark in common'}")
    return comparisons
