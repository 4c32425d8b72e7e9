"""The verdict of a gate with all its numbers: what `regrade gate --json` prints and Prefect keeps.

Accuracies, differences, rates and limits are shares (0.01 is one percentage point), as everywhere in results.
"""

from typing import Literal

from pydantic import Field

from regrade.comparing.models import Comparison, Part
from regrade.tracking.labels import tag_answer_sets

Verdict = Literal["pass", "regression", "cannot tell"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "regression": 1, "cannot tell": 2}
REPORT_VERSION = 1


class Check(Part):
    """A limit on the candidate's answers."""

    name: Literal["unparsed", "truncated"]
    value: float
    limit: float
    verdict: Verdict
    p: float
    """Chance of a count this high if the true rate were the limit."""
    p_adjusted: float
    """After Holm's correction for everything that was tested."""


class BenchmarkVerdict(Part):
    """The verdict on one benchmark, and what it rests on. All but the first four are None without a comparison."""

    benchmark: str
    verdict: Verdict
    reason: str
    """One sentence for people."""
    max_drop: float
    comparison: Comparison | None = None
    p_regression: float | None = None
    """Chance of such a difference if the true drop were `max_drop`."""
    p_regression_adjusted: float | None = None
    """The same after Holm's correction for everything that was tested."""
    p_pass: float | None = None
    """Chance of a difference this good if the true drop were `max_drop`."""
    low: float | None = None
    """Lower end of the difference's interval: above `-max_drop` is a pass."""
    low_level: float | None = None
    """Confidence of that end, such as 0.95."""
    high: float | None = None
    """Upper end of the difference's interval: below `-max_drop` is a regression."""
    high_level: float | None = None
    """Confidence of that end: higher than that of `low` where several things were tested."""
    detectable_drop: float | None = None
    """Smallest true drop that would be called a regression with a chance of 80 %."""
    questions_needed: int | None = None
    """Questions with which a model that did not change would pass with a chance of 80 %; None where `max_drop` is 0."""
    checks: tuple[Check, ...] = ()


class GateReport(Part):
    """The verdict on a candidate."""

    report_version: int = Field(REPORT_VERSION, le=REPORT_VERSION)
    verdict: Verdict
    summary: str
    """One line: the verdict, and why."""
    base: str
    """The baseline as it was asked for."""
    candidate: str
    error_rate: float
    """Promised: the chance of `regression` without a drop beyond `max_drop`, and of `pass` despite one."""
    benchmarks: tuple[BenchmarkVerdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 pass, 1 regression, 2 cannot tell."""
        return EXIT_CODES[self.verdict]


def tag_candidate(uri: str, report: GateReport) -> int:
    """Tag the candidate's runs in MLflow with the verdict, and return the number of scorings found.

    Tags: `regrade.gate` (the verdict), `regrade.gate.reason`, `regrade.gate.baseline`.

    Raises:
        TrackingError: If MLflow cannot be reached or refuses the tags.
    """
    tags = {
        judged.comparison.candidate.answer_set_id: {
            "regrade.gate": judged.verdict,
            "regrade.gate.reason": judged.reason,
            "regrade.gate.baseline": judged.comparison.base.answer_set_id,
        }
        for judged in report.benchmarks
        if judged.comparison is not None
    }
    overall = {
        "regrade.gate": report.verdict,
        "regrade.gate.reason": report.summary,
        "regrade.gate.baseline": report.base,
    }
    return tag_answer_sets(uri, tags, overall) if tags else 0
