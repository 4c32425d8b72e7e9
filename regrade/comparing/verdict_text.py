"""The page of a verdict."""

from collections.abc import Iterable, Iterator

from regrade.comparing.gate_report import BenchmarkVerdict, GateReport, Verdict, summarised
from regrade.comparing.models import ComparedSide
from regrade.comparing.text import (
    doubts,
    example_blocks,
    facts,
    mark,
    n_text,
    noise_lines,
    p_text,
    view_lines,
)
from regrade.stats.scale import percent
from regrade.text.blocks import Block, Details, Heading, Items, Line, Table, Tone, with_code
from regrade.text.text import counted

COLUMNS = (
    "benchmark",
    "verdict",
    "baseline",
    "candidate",
    "difference",
    "accepted drop",
    "interval",
    "right to wrong",
    "wrong to right",
    "would find",
    "n",
)
TONES: dict[Verdict, Tone] = {"pass": "good", "regression": "bad", "cannot tell": "open"}
_EXPLAINED = (
    "Differences are candidate minus baseline in percentage points, or in the points of the scores, paired by question. Regression: "
    "the whole interval is below the accepted drop. Pass: the whole interval is above it. `would find`: the smallest true drop that "
    "is called a regression with a probability of 80 %, if as many answers change as here. Probability of a false regression on any "
    "benchmark, and of a false pass: at most "
)


def verdict_row(judged: BenchmarkVerdict) -> tuple[str, ...]:
    """Return the cells of a benchmark, in the order of `COLUMNS`."""
    comparison = judged.comparison
    if comparison is None:
        return judged.benchmark, judged.verdict, *["-"] * (len(COLUMNS) - 2)
    scale = comparison.scale
    return (
        judged.benchmark,
        judged.verdict,
        scale.text(comparison.base_accuracy, 2),
        scale.text(comparison.candidate_accuracy, 2),
        f"{scale.difference_text(comparison.difference)}{mark(comparison)}",
        f"{scale.points_per_unit * judged.max_drop:g}",
        f"{scale.difference_text(judged.low)} to {scale.difference_text(judged.high)}{_level(judged)}",
        f"{comparison.right_to_wrong:,}",
        f"{comparison.wrong_to_right:,}",
        scale.size_text(judged.detectable_drop),
        n_text(comparison),
    )


def _named(name: str, sides: Iterable[ComparedSide]) -> str:
    """Return a side with the name of its model, if that is another: `baseline (org/model)`."""
    others = [model for model in dict.fromkeys(side.model for side in sides) if model != name]
    return f"{name} ({', '.join(others)})" if others else name


def _level(judged: BenchmarkVerdict) -> str:
    """Return the confidence of the interval, as its end in a table; empty if it is not known."""
    low, high = judged.low_level, judged.high_level
    if low is None or high is None:
        return ""
    if low == high:
        return f" ({percent(2 * low - 1, None)})"
    return f" ({percent(low, None)} and {percent(high, None)}, one-sided)"


def opening(report: GateReport) -> list[Block]:
    """Return the beginning of every page of a verdict: the verdict, both models, limits and intervals."""
    table = Table(
        COLUMNS, list(map(verdict_row, report.benchmarks)), COLUMNS[:2], headings=COLUMNS[:1]
    )
    compared = [judged.comparison for judged in report.benchmarks if judged.comparison is not None]
    candidate = _named(report.candidate, (comparison.candidate for comparison in compared))
    base = _named(report.base, (comparison.base for comparison in compared))
    return [
        Heading(f"{report.verdict}: {report.candidate}", 1, TONES[report.verdict]),
        Line(report.summary),
        Line(f"Candidate {candidate} against baseline {base}."),
        table,
        Items(
            [
                f"{judged.benchmark}: {line}"
                for judged in report.benchmarks
                if judged.comparison is not None
                for line in noise_lines(judged.comparison)
            ]
        ),
        Line(with_code(f"{_EXPLAINED}{percent(report.error_rate, None)}."), "note"),
        Items(report.notes),
    ]


def blocks(report: GateReport) -> list[Block]:
    """Return the page of a verdict."""
    told = {name for of in summarised(report.verdict, report.benchmarks).values() for name in of}
    return [
        *opening(report),
        *(
            block
            for judged in report.benchmarks
            if judged.comparison is not None or judged.benchmark not in told
            for block in _benchmark(judged, told=judged.benchmark in told)
        ),
    ]


def _benchmark(judged: BenchmarkVerdict, *, told: bool) -> Iterator[Block]:
    """Yield the section of a benchmark; where its reason was told above, a terminal has none without a doubt or pages to view."""
    comparison = judged.comparison
    heading = Heading(judged.benchmark, 2, TONES[judged.verdict])
    if comparison is None:
        yield from (heading, Line(judged.reason))
        return
    doubted, viewed = list(doubts(comparison)), view_lines(comparison)
    if not told:
        yield from (heading, Line(judged.reason))
    else:
        yield heading if doubted or viewed else Details((heading,))
    drop = comparison.scale.points_per_unit * judged.max_drop
    tests = (
        f"if the true drop were {counted(drop, 'point')}, p {p_text(judged.p_regression)} for a difference this "
        f"low ({p_text(judged.p_regression_adjusted)} after Holm), and p {p_text(judged.p_pass)} for one this high"
    )
    checks = [
        f"{check.name}: {percent(check.value)}, at most {percent(check.limit, None)} allowed: {check.verdict}"
        for check in judged.checks
    ]
    yield Details((Items([tests, *_levels(judged), *facts(comparison), *checks]),))
    yield Items(doubted)
    yield from viewed
    yield Details(example_blocks(comparison))


def _levels(judged: BenchmarkVerdict) -> Iterator[str]:
    """Yield the confidence of both ends of the interval, if it is known."""
    if judged.low_level is None or judged.high_level is None:
        return
    yield (
        f"the interval's lower end is at {percent(judged.low_level, None)}, its upper end at {percent(judged.high_level, None)}, "
        "each one-sided; that of regrade compare is two-sided, at 97.5 % each"
    )
