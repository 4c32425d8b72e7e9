"""A verdict as table rows or a page of markdown; untrusted texts are escaped."""

from regrade.comparing.gate_report import BenchmarkVerdict, GateReport, Verdict
from regrade.comparing.text import examples_markdown, mark, n_text, p_text, remarks, view_lines
from regrade.stats.scale import SHARES
from regrade.text.markdown import escape, page_tables
from regrade.text.numbers import percent

COLUMNS = (
    "benchmark",
    "verdict",
    "baseline",
    "candidate",
    "difference",
    "interval",
    "accepted drop",
    "right to wrong",
    "wrong to right",
    "would find",
    "n",
)
GROUPS = ((*COLUMNS[:5], COLUMNS[6]), COLUMNS[5:6], COLUMNS[7:])
"""Columns that stay together on a page."""
MARKS: dict[Verdict, str] = {"pass": "✅", "regression": "❌", "cannot tell": "❔"}
MAX_PAGE = 500_000
"""Longest page, in characters; GitHub accepts 1 MiB."""


def verdict_row(judged: BenchmarkVerdict) -> tuple[str, ...]:
    """Return the cells of a benchmark, in the order of `COLUMNS`."""
    comparison = judged.comparison
    scale = SHARES if comparison is None else comparison.scale
    accepted = f"{scale.points_per_unit * judged.max_drop:g}"
    if comparison is None:
        return judged.benchmark, judged.verdict, "-", "-", "-", "-", accepted, "-", "-", "-", "-"
    return (
        judged.benchmark,
        judged.verdict,
        scale.text(comparison.base_accuracy, 2),
        scale.text(comparison.candidate_accuracy, 2),
        f"{scale.difference_text(comparison.difference)}{mark(comparison)}",
        f"{scale.difference_text(judged.low)} to {scale.difference_text(judged.high)}{_level(judged)}",
        accepted,
        f"{comparison.right_to_wrong:,}",
        f"{comparison.wrong_to_right:,}",
        scale.size_text(judged.detectable_drop),
        n_text(comparison),
    )


def base_text(report: GateReport) -> str:
    """Return the baseline with the name of its model, if that is another: `baseline (org/model)`."""
    models = dict.fromkeys(
        judged.comparison.base.model
        for judged in report.benchmarks
        if judged.comparison is not None
    )
    others = [model for model in models if model != report.base]
    return f"{report.base} ({', '.join(others)})" if others else report.base


def _level(judged: BenchmarkVerdict) -> str:
    """Return the confidence of the interval, as its end in a table; empty if it is not known."""
    low, high = judged.low_level, judged.high_level
    if low is None or high is None:
        return ""
    if low == high:
        return f" ({100 * (2 * low - 1):.4g} %)"
    return f" ({100 * low:.4g} % and {100 * high:.4g} %, one-sided)"


def gate_markdown(report: GateReport) -> str:
    """Return the verdict as a page of markdown."""
    rate = f"{100 * report.error_rate:g} %"
    lines = [
        f"# {MARKS[report.verdict]} {report.verdict}: {escape(report.candidate)}",
        "",
        escape(report.summary),
        "",
        f"Candidate {escape(report.candidate)} against baseline {escape(base_text(report))}.",
        "",
        *page_tables(
            GROUPS, COLUMNS, [verdict_row(judged) for judged in report.benchmarks], key=COLUMNS[:1]
        ),
        "Differences are candidate minus baseline in percentage points, or in the points of the scores, paired by question. Regression: the whole interval "
        "is below the accepted drop. Pass: the whole interval is above it. `would find`: the smallest true drop that is "
        "called a regression with a probability of 80 %, if as many answers change as here. Probability of a false regression on any benchmark, and of a "
        f"false pass: at most {rate}.",
        "",
        *(f"- {escape(note)}" for note in report.notes),
        "",
    ]
    for judged in report.benchmarks:
        lines += _benchmark(judged)
    page = "\n".join(lines)
    if len(page) <= MAX_PAGE:
        return page
    return "\n".join([*lines[:12], "The rest is too long for a page: see the JSON.", ""])[:MAX_PAGE]


def _benchmark(judged: BenchmarkVerdict) -> list[str]:
    lines = [
        f"## {MARKS[judged.verdict]} {escape(judged.benchmark)}",
        "",
        escape(judged.reason),
        "",
    ]
    if judged.comparison is None:
        return lines
    drop = judged.comparison.scale.points_per_unit * judged.max_drop
    tests = (
        f"if the true drop were {drop:g} {'point' if drop == 1 else 'points'}, p {p_text(judged.p_regression)} for a difference this "
        f"low ({p_text(judged.p_regression_adjusted)} after Holm), and p {p_text(judged.p_pass)} for one this high"
    )
    texts = (tests, _levels(judged), *remarks(judged.comparison))
    lines += [f"- {escape(text)}" for text in texts if text]
    lines += [
        f"- {check.name}: {percent(check.value)}, at most {100 * check.limit:g} % allowed: {check.verdict}"
        for check in judged.checks
    ]
    view = view_lines(judged.comparison)
    return [*lines, "", *view, *examples_markdown(judged.comparison)]


def _levels(judged: BenchmarkVerdict) -> str:
    """Return the confidence of both ends of the interval; empty if unknown."""
    if judged.low_level is None or judged.high_level is None:
        return ""
    return (
        f"the interval's lower end is at {100 * judged.low_level:g} %, its upper end at {100 * judged.high_level:.4g} %, "
        "each one-sided; that of regrade compare is two-sided, at 97.5 % each"
    )
