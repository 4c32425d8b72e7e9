"""The verdict of a gate with all its numbers: what `regrade gate --json` prints and Prefect keeps.

Accuracies, differences, rates and limits are shares (0.01 is one percentage point), as everywhere in results.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Verdict = Literal["pass", "regression", "cannot tell"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "regression": 1, "cannot tell": 2}
COULD_NOT_RUN = 3
"""Exit code where there is no verdict; anything above it says the same."""
REPORT_VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GateSide(_Part):
    """One of the two sides on one benchmark, over all its answers and not only those that have a partner."""

    model: str
    answer_set_id: str
    repository: str
    revision: str
    """Commit that was read."""
    rows: int
    expected_rows: int
    accuracy: float | None
    """Over the questions that both sides answered."""
    unparsed_rate: float | None
    truncated_rate: float | None
    failed: int


class Check(_Part):
    """A limit on the candidate's answers (`unparsed`, `truncated`) or on what was compared (`coverage`)."""

    name: Literal["unparsed", "truncated", "coverage"]
    value: float | None
    limit: float
    verdict: Verdict
    p: float | None = None
    """Chance of a count this high if the true rate were the limit; None for `coverage`, which is no estimate."""


class MovedSubset(_Part):
    """A subset that moved more than chance explains, after correction for looking at all of them."""

    name: str
    n: int
    difference: float
    p_adjusted: float


class BenchmarkVerdict(_Part):
    """The verdict on one benchmark, and what it rests on."""

    benchmark: str
    verdict: Verdict
    reason: str
    """One sentence for people."""
    scorer: str = ""
    """Scorer, version and source hash that graded both sides."""
    base: GateSide | None = None
    candidate: GateSide | None = None
    n: int = 0
    """Pairs of answers that have a value on both sides."""
    questions: int = 0
    """Questions behind them."""
    coverage: float | None = None
    """Share of the baseline's questions that were compared."""
    difference: float | None = None
    """Candidate minus baseline."""
    low: float | None = None
    """Ends of the interval of the difference that the verdict rests on; each end holds at `level` (one-sided)."""
    high: float | None = None
    level: float | None = None
    """Confidence of each end of the interval, such as 0.975 for the stricter of two benchmarks."""
    max_drop: float
    p_regression: float | None = None
    """Chance of such a difference if the true drop were `max_drop`, before correction."""
    p_regression_adjusted: float | None = None
    """The same after Holm's correction for everything that was tested."""
    p_pass: float | None = None
    """Chance of a difference this good if the true drop were `max_drop`."""
    right_to_wrong: int = 0
    wrong_to_right: int = 0
    test: str = ""
    """`exact McNemar` or `sign-flip permutation by cluster`."""
    p_value: float | None = None
    """Two-sided, of no difference at all."""
    detectable_drop: float | None = None
    """Smallest true drop that would be called a regression with a chance of 80 %."""
    checks: tuple[Check, ...] = ()
    moved: tuple[MovedSubset, ...] = ()
    allowed: tuple[str, ...] = ()
    """Differences between the two sides that were named as meant."""


class GateReport(_Part):
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

    @property
    def exit_code(self) -> int:
        """0 pass, 1 regression, 2 cannot tell."""
        return EXIT_CODES[self.verdict]
