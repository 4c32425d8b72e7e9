"""A verdict as people read it: a page of markdown that nothing breaks out of."""

from regrade.comparing.gate_report import BenchmarkVerdict, GateReport, Verdict
from regrade.reporting.comparisons import examples_markdown, p_text, points, remarks, table
from regrade.reporting.tables import escape, percent

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
MARKS: dict[Verdict, str] = {"pass": "✅", "regression": "❌", "cannot tell": "❔"}
MAX_PAGE = 500_000
"""Characters; GitHub takes a page of 1 MiB."""


def verdict_row(one: BenchmarkVerdict) -> tuple[str, ...]:
    """Return the cells of one benchmark, in the order of `COLUMNS`."""
    accepted = f"{100 * one.max_drop:g}"
    found = one.comparison
    if found is None:
        return one.benchmark, one.verdict, "-", "-", "-", "-", accepted, "-", "-", "-", "-"
    return (
        one.benchmark,
        one.verdict,
        percent(found.base_accuracy, 2),
        percent(found.candidate_accuracy, 2),
        points(found.difference),
        f"{points(one.low)} to {points(one.high)}",
        accepted,
        f"{found.right_to_wrong:,}",
        f"{found.wrong_to_right:,}",
        "-" if one.detectable_drop is None else f"{100 * one.detectable_drop:.2f}",
        f"{found.n:,}" + ("" if found.coverage >= 1 else f" ({100 * found.coverage:.1f} %)"),
    )


def gate_markdown(report: GateReport) -> str:
    """Return the verdict as a page of markdown."""
    rate = f"{100 * report.error_rate:g} %"
    lines = [
        f"# {MARKS[report.verdict]} {report.verdict}: {escape(report.candidate)}",
        "",
        escape(report.summary),
        "",
        f"Candidate {escape(report.candidate)} against baseline {escape(report.base)}.",
        "",
        *table(COLUMNS, [verdict_row(one) for one in report.benchmarks]),
        "",
        "Differences are candidate minus baseline in percentage points, paired by question. Below the accepted drop with "
        "its whole interval: regression. Above it: pass. `would find`: the smallest true drop that is called a "
        f"regression with a chance of 80 %. Chance of a false alarm on any benchmark, and of a false pass: {rate}.",
        "",
        *(f"- {escape(note)}" for note in report.notes),
        "",
    ]
    for one in report.benchmarks:
        lines += _benchmark(one)
    page = "\n".join(lines)
    if len(page) <= MAX_PAGE:
        return page
    return "\n".join([*lines[:12], "The rest is too long for a page: see the JSON.", ""])[:MAX_PAGE]


def _benchmark(one: BenchmarkVerdict) -> list[str]:
    lines = [f"## {MARKS[one.verdict]} {escape(one.benchmark)}", "", escape(one.reason), ""]
    if one.comparison is None:
        return lines
    tests = (
        f"chance of this if the true drop were {100 * one.max_drop:g} points: {p_text(one.p_regression)} for one as "
        f"low ({p_text(one.p_regression_adjusted)} after Holm), {p_text(one.p_pass)} for one as high"
    )
    lines += [f"- {escape(text)}" for text in (tests, *remarks(one.comparison))]
    lines += [
        f"- {check.name}: {percent(check.value)}, at most {100 * check.limit:g} % allowed: {check.verdict}"
        for check in one.checks
    ]
    return [*lines, "", *examples_markdown(one.comparison)]
