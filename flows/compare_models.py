"""Flow `compare-models`: compare a candidate with a baseline question by question, and judge it."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows import parameters as p
from flows.gating import announce, completed
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.gate import gate_report
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Cluster, Comparisons
from regrade.comparing.together import compare_sides
from regrade.jobs.job import default_answers
from regrade.orchestration.form import form
from regrade.settings import Difference, GateSettings
from regrade.settings.errors import SettingsError
from tasks.gate import show_comparisons


def run_name() -> str:
    """Name of the flow run: `<candidate> against <base>`."""
    parameters = flow_run.parameters
    return f"{parameters['candidate']} against {parameters['base']}"


@form(
    base={"minLength": 1, "title": "Baseline"},
    candidate={"minLength": 1},
    base_answers={"title": "Answer repository of the baseline"},
    allow={"title": "Differences that are meant"},
    clusters={"title": "Independent of each other"},
    examples={"minimum": 0, "maximum": 50},
)
@flow(name="compare-models", flow_run_name=run_name)
def compare_models(
    base: str,
    candidate: str,
    benchmarks: tuple[str, ...] = (),
    answers: p.Answers = None,
    base_answers: str | None = None,
    gate: GateSettings | None = None,
    allow: tuple[Difference, ...] = (),
    scorer: p.Scorer = None,
    clusters: Cluster = "question",
    examples: int = 3,
    tracking_uri: p.TrackingUri = None,
) -> Comparisons | GateReport | State[Any]:
    """Compare the stored answers of a candidate and a baseline, and judge whether the candidate is worse.

    Args:
        base: Answer set id, model, or an alias such as `baseline`.
        candidate: Answer set id, model or alias.
        benchmarks: Benchmarks to compare. Empty: all of the baseline.
        base_answers: Answer repository of the baseline, if it differs. None: the same repository.
        gate: Limits of the verdict; its baseline is the one above. None: no verdict.
        allow: Intended differences between the two sides; others are refused.
        scorer: Scorer for both sides. None: the baseline's first scorer that the candidate also has.
        clusters: Unit that is independent: `question`, or `subset` if a subset is a passage with several questions.
        examples: Number of changed answers to show of each kind (right to wrong, wrong to right).
        tracking_uri: MLflow server or database that records the verdict. None: the worker's default.
    """
    answers = answers or default_answers()
    settings = gate or GateSettings()
    if settings.promote:
        raise SettingsError(
            "`gate.promote` is for `evaluate-model`. Here, run `regrade promote` after the verdict."
        )
    coverage = settings.min_coverage
    options = CompareOptions(
        allow=(*allow, *settings.allow),
        min_coverage=None if coverage is None else coverage / 100,
        scorer=scorer,
        cluster=clusters,
        examples=examples,
    )
    together = compare_sides(
        base,
        candidate,
        answers=answers,
        base_answers=base_answers or settings.base_answers,
        benchmarks=benchmarks,
        options=options,
    )
    comparisons = together.comparisons
    show_comparisons(comparisons)
    if gate is not None:
        report = gate_report(together, settings)
        announce(report, answers, tracking_uri)
        return completed(report.summary, report)
    if not comparisons.compared:
        reasons = "; ".join(
            f"{refusal.benchmark}: {refusal.reason}" for refusal in comparisons.refused
        )
        raise SettingsError(f"Nothing could be compared: {reasons or 'no benchmark in common'}")
    return comparisons
