"""The flow `compare-models`: a candidate against a baseline, question by question, and the verdict of a gate."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.gating import announce, completed
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.gate import gate_report
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Cluster, Comparisons
from regrade.comparing.together import compare_sides
from regrade.errors import SettingsError
from regrade.job import default_answers
from regrade.orchestration.form import form
from regrade.settings import Difference, GateSettings, ScorerName
from tasks.gate import show_comparisons


def run_name() -> str:
    """Return `<candidate> against <base>` for the running flow."""
    parameters = flow_run.parameters
    return f"{parameters['candidate']} against {parameters['base']}"


@form(
    base={"minLength": 1, "title": "Baseline"},
    candidate={"minLength": 1},
    answers={"title": "Answer repository"},
    base_answers={"title": "Answer repository of the baseline"},
    allow={"title": "Differences that are meant"},
    clusters={"title": "Independent of each other"},
    examples={"minimum": 0, "maximum": 50},
    tracking_uri={"title": "MLflow"},
)
@flow(name="compare-models", flow_run_name=run_name)
def compare_models(
    base: str,
    candidate: str,
    benchmarks: tuple[str, ...] = (),
    answers: str | None = None,
    base_answers: str | None = None,
    gate: GateSettings | None = None,
    allow: tuple[Difference, ...] = (),
    scorer: ScorerName | None = None,
    clusters: Cluster = "question",
    examples: int = 3,
    tracking_uri: str | None = None,
) -> Comparisons | GateReport | State[Any]:
    """Compare a candidate with a baseline on stored answers, and say whether it is worse. Nothing is generated.

    Args:
        base: Answer set id, model, or an alias such as `baseline`.
        candidate: Answer set id, model or alias.
        benchmarks: Only these. Empty: all that the baseline has.
        answers: Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.
        base_answers: Answer repository of the baseline, if it is another one. None: the same.
        gate: When the candidate counts as worse; its baseline is the one above. None: no verdict.
        allow: Differences between the two sides that are meant; others are refused.
        scorer: How both sides are graded. None: the baseline's first scorer that the candidate has too.
        clusters: What is independent; `subset` where subsets are passages with several questions each.
        examples: Examples of what flipped to show, of each kind.
        tracking_uri: MLflow server or database, where the verdict is noted. None: the worker's default.
    """
    where = answers or default_answers()
    settings = gate or GateSettings()
    least = settings.min_coverage
    options = CompareOptions(
        allow=(*allow, *settings.allow),
        min_coverage=None if least is None else least / 100,
        scorer=scorer,
        cluster=clusters,
        examples=examples,
    )
    together = compare_sides(
        base,
        candidate,
        answers=where,
        base_answers=base_answers or settings.base_answers,
        benchmarks=benchmarks,
        options=options,
    )
    found = together.comparisons
    show_comparisons(found)
    if gate is not None:
        report = gate_report(together, settings)
        announce(report, where, tracking_uri)
        return completed(report, report)
    if not found.compared:
        why = "; ".join(f"{one.benchmark}: {one.reason}" for one in found.refused)
        raise SettingsError(f"Nothing could be compared: {why or 'no benchmark in common'}")
    return found
