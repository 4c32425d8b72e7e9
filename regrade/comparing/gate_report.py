"""The report of a gate: verdict and all numbers, as `regrade gate --json` prints and Prefect stores it.

Rates and limits are shares (0.01 is one percentage point). Accuracies, differences and accepted drops are in the unit of the
comparison's `scale`.
"""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from regrade.comparing.models import Comparison, FrozenModel
from regrade.tracking.labels import tag_answer_sets

Verdict = Literal["pass", "regression", "cannot tell"]
Limited = Literal["unparsed", "truncated"]
SEVERITY: tuple[Verdict, ...] = ("pass", "cannot tell", "regression")
"""Verdicts from best to worst."""
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "regression": 1, "cannot tell": 2}
SUMMARISED = 5
"""Most reasons in a summary."""
REPORT_VERSION = 4
"""2: standard errors of both sides, and `same_answers`. 3: `scale`, and the fields about judged scores. 4: `noise`."""


class Check(FrozenModel):
    """A limit on the candidate's answers."""

    name: Limited
    value: float
    limit: float
    verdict: Verdict
    p: float
    """Probability of a count this high if the true rate were the limit."""
    p_adjusted: float
    """`p` after Holm's correction for all tests of the report."""


class BenchmarkVerdict(FrozenModel):
    """The verdict on one benchmark, with its numbers. Without a comparison, all but the first four fields are None."""

    benchmark: str
    verdict: Verdict
    reason: str
    """One sentence for readers."""
    max_drop: float
    comparison: Comparison | None = None
    p_regression: float | None = None
    """Probability of a difference this bad if the true drop were `max_drop`."""
    p_regression_adjusted: float | None = None
    """`p_regression` after Holm's correction for all tests of the report."""
    p_pass: float | None = None
    """Probability of a difference this good if the true drop were `max_drop`."""
    low: float | None = None
    """Lower end of the difference's interval: above `-max_drop` is a pass."""
    low_level: float | None = None
    """Confidence of `low`, such as 0.95."""
    high: float | None = None
    """Upper end of the difference's interval: below `-max_drop` is a regression."""
    high_level: float | None = None
    """Confidence of `high`: higher than `low_level` if there were several tests."""
    detectable_drop: float | None = None
    """Smallest true drop that would be called a regression with a probability of 80 %, at the observed share of changed
    questions; with repeats or passages, however the loss is spread, so that an even loss is found earlier."""
    questions_needed: int | None = None
    """Questions needed for an unchanged model to pass with a probability of 80 %; None if `max_drop` is 0."""
    checks: tuple[Check, ...] = ()


class GateReport(FrozenModel):
    """The verdict on a candidate."""

    report_version: int = Field(REPORT_VERSION, le=REPORT_VERSION)
    verdict: Verdict
    summary: str
    """One line: the verdict and the reason."""
    base: str
    """Name of the baseline as given: alias, answer set id or model."""
    candidate: str
    error_rate: float
    """Upper bound on the rate of false regressions, and of false passes."""
    benchmarks: tuple[BenchmarkVerdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 pass, 1 regression, 2 cannot tell."""
        return EXIT_CODES[self.verdict]


def summarised(overall: Verdict, benchmarks: Iterable[BenchmarkVerdict]) -> dict[str, list[str]]:
    """Return the reasons that stand in a report's summary, each with its benchmarks, and at most `SUMMARISED`.

    If all benchmarks pass, it is the reason that all share, if there is one. The other benchmarks have a section of their own for their reason.
    """
    decisive = [benchmark for benchmark in benchmarks if benchmark.verdict == overall]
    found: dict[str, list[str]] = {}
    if overall != "pass" or len({verdict.reason for verdict in decisive}) == 1:
        for verdict in decisive:
            if verdict.reason in found or len(found) < SUMMARISED:
                found.setdefault(verdict.reason, []).append(verdict.benchmark)
    return found


def tag_candidate(uri: str, report: GateReport) -> int:
    """Tag the candidate's judged runs in MLflow with the verdict, and return their number.

    The description of the candidate's evaluation begins with the verdict. Tags: `regrade.gate` (the verdict), `regrade.gate.reason`, `regrade.gate.baseline`.

    Raises:
        TrackingError: If MLflow cannot be reached or refuses the tags.
    """
    tags = {
        (benchmark.comparison.candidate.answer_set_id, benchmark.comparison.scorer): {
            "regrade.gate": benchmark.verdict,
            "regrade.gate.reason": benchmark.reason,
            "regrade.gate.baseline": benchmark.comparison.base.answer_set_id,
        }
        for benchmark in report.benchmarks
        if benchmark.comparison is not None
    }
    overall = {
        "regrade.gate": report.verdict,
        "regrade.gate.reason": report.summary,
        "regrade.gate.baseline": report.base,
    }
    line = f"against {report.base}: {report.summary}"
    return tag_answer_sets(uri, tags, overall, line) if tags else 0
